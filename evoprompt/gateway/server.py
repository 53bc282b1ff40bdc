"""``evoprompt.Gateway``: an OpenAI-compatible server that places the instruction on the way.

It is written on aiohttp: before an upstream that answers after half a second, of 320 requests, 64
at once, bare proxies of Starlette with httpx and of aiohttp served 24 and 118 a second, and at
1,000 at once the former reset connections (2026-11-26).
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

try:
    import aiohttp
    from aiohttp import web
    from aiohttp.typedefs import Handler
except ModuleNotFoundError as error:
    if error.name == "aiohttp":
        error.add_note('required: aiohttp; pip install "evoprompt[gateway]"')
    raise
from pydantic import TypeAdapter, ValidationError, validate_call

from evoprompt.engine import Engine
from evoprompt.gateway.answers import Answer
from evoprompt.gateway.conversations import Conversations
from evoprompt.gateway.rewriting import Body
from evoprompt.gateway.settings import GatewaySettings
from evoprompt.hosting.prompts import PLACEMENTS, marked_prompt
from evoprompt.lm.budget import Attempt, Spending, SpendTracker, require_prices
from evoprompt.lm.settings import BudgetSettings
from evoprompt.support.errors import BudgetError, EvopromptError
from evoprompt.support.text import format_error, keep_secret, masked

KEY_HEADER = "X-Evoprompt-Conversation"
"""Header with the key of a conversation, for agents whose API key is something else."""

TOKEN = "EVOPROMPT_GATEWAY_TOKEN"
"""Environment variable that holds what trainers show; without it each gateway draws a token."""

SPENDING = "upstream-spending.jsonl"
"""Journal of what requests have cost, in the directory of a gateway with a budget."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SERVED = "/v1/chat/completions, /v1/completions, /v1/models and /conversations"
_NOT_PASSED = {  # of one connection alone, or a secret of one side
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
    *("transfer-encoding", "upgrade", "accept-encoding", "expect", "date", "server", "host"),
    *("content-length", "authorization", "x-api-key", "api-key", "cookie", "set-cookie"),
    KEY_HEADER.lower(),
}
_NOT_THE_AGENTS = (401, 403, 408, 429)  # refusals that are not its fault, beside 500 and above
_UNPACKED = ("gzip", "deflate", "br", "zstd")  # bodies so coded are read, and passed, unpacked
_LONGEST_BODY = 2**26  # bytes of a request: a long conversation with pictures
_LONGEST_HEADER = 2**16  # bytes
_KEEPALIVE = 4.0  # seconds that a connection stays open unused: uvicorn closes it after 5
_LONGEST_ANSWER = 32_768  # tokens, for the budget, of an answer to whose length nobody set a limit
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_CHOICES = ("n", "best_of")
_MAX_TOKENS = 10_000_000  # of an answer, for the budget: no model has a longer context
_SILENCE = 600.0  # seconds: an answer that does not stream may take that long


class _TokenError(EvopromptError):
    """A request for trainers does not show their token."""

    status = 401


class Gateway(Conversations):
    """A proxy between agents and a model; each conversation has one instruction.

    ::

        settings = GatewaySettings(upstream=URL, directory="runs/gateway", rollouts=4)
        with evoprompt.Gateway(engine, settings) as gateway:
            key = gateway.conversation(evoprompt.Question("q1", "What is 2 + 2?"), "step 1, q1")
            answer = my_agent(base_url=gateway.url, api_key=key)
            gateway.reward(key, 1.0 if answer == "4" else 0.0)

    It is bound to the engine until it is closed.

    Attributes:
        token: what trainers show as their API key, over HTTP.

    Args:
        engine: gives candidates and is told rewards; it must need no rollouts of its own.
        settings: where it stands, what makes a step, and what it may cost.
        clock: seconds that only go forward.

    Raises:
        InputError: a setting cannot be used, or the engine needs rollouts of its own.
        StateError: the directory holds something damaged.
    """

    def __init__(
        self,
        engine: Engine,
        settings: GatewaySettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.token = os.environ.get(TOKEN, "") or secrets.token_urlsafe(24)
        self._upstream_key = os.environ.get(settings.key, "")
        for secret in filter(None, (self.token, self._upstream_key)):
            keep_secret(secret)
        require_prices(settings.budget, settings.prices, "the upstream")
        limited = settings.budget != BudgetSettings()  # a journal takes a millisecond of a request
        tracker = SpendTracker(settings.directory / SPENDING if limited else None)
        self._spending = Spending(tracker, settings.budget, settings.prices)
        super().__init__(engine, settings, clock)
        self._render = PLACEMENTS[settings.placement]
        self._opened, self._rewarded = validate_call(self.conversation), validate_call(self.reward)
        self.port = settings.port
        self._loop, self._stopped = asyncio.new_event_loop(), asyncio.Event()
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL for agents, such as ``http://127.0.0.1:41234/v1``."""
        return f"http://{self.settings.host}:{self.port}/v1"

    def __enter__(self) -> Self:
        """Begins to listen.

        Raises:
            OSError: nobody can, at this host and port.
        """
        try:
            listening = socket.create_server((self.settings.host, self.port), backlog=4096)
        except OSError:
            self.close()
            raise
        self.port = listening.getsockname()[1]
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(listening),), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Listens no more, and saves everything; open conversations go on with the next gateway."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()
            self._thread = None
        self._loop.close()
        super().close()

    async def _serve(self, listening: socket.socket) -> None:
        app = web.Application(middlewares=[self._telling], client_max_size=_LONGEST_BODY)
        app.router.add_post("/conversations", self._opens)
        app.router.add_post("/conversations/{key}/reward", self._rewards)
        app.router.add_post("/v1/chat/completions", self._completes)
        app.router.add_post("/v1/completions", self._completes)
        app.router.add_get("/v1/models", self._lists)
        runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=5.0,
            handler_cancellation=True,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
        )
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE),
            cookie_jar=aiohttp.DummyCookieJar(),  # else all agents share one
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=_SILENCE),
            trace_configs=[_reuse_tracing()],
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
        ) as self._session:
            await runner.setup()
            await web.SockSite(runner, listening, backlog=4096).start()
            while not self._stopped.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(
                        self._stopped.wait(), min(self.settings.timeout / 10, 1.0)
                    )
                with suppress(Exception):  # it has stopped, which each request is told
                    self.expire()
            await runner.cleanup()

    @web.middleware
    async def _telling(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answers with an error in the form of the protocol, whatever went wrong."""
        try:
            return await handler(request)
        except web.HTTPException as error:
            said = f"{request.method} {request.path}: {error.reason}; required: one of {_SERVED}"
            return _refusal(error.status, said)
        except ValidationError as error:
            return _refusal(400, f"the body cannot be read: {error.errors()[0]['msg']}")
        except EvopromptError as error:
            return _refusal(getattr(error, "status", 400), str(error))

    # -------------------------------------------------------------------------------- for trainers

    async def _opens(self, request: web.Request) -> web.Response:
        given = await self._of_trainer(request)
        return web.json_response({"key": self._opened(**given)})

    async def _rewards(self, request: web.Request) -> web.Response:
        given = await self._of_trainer(request)
        why = self._rewarded(request.match_info["key"], **given)
        return web.json_response({"counted": not why, "why": why})

    async def _of_trainer(self, request: web.Request) -> dict[str, Any]:
        """Return what a trainer sends, who has shown the token."""
        shown = _bearer_of(request).encode(errors="surrogateescape")
        if not hmac.compare_digest(shown, self.token.encode(errors="surrogateescape")):
            raise _TokenError(
                f"{request.method} {request.path}: the API key is not the token of trainers; "
                f"required: Authorization: Bearer TOKEN, with the value of {TOKEN}, or with the "
                "token that the gateway printed at its start"
            )
        return TypeAdapter(dict[str, Any]).validate_json(await request.read())

    # ---------------------------------------------------------------------------------- for agents

    async def _lists(self, request: web.Request) -> web.StreamResponse:
        return await self._pass(request, b"", Answer())

    async def _completes(self, request: web.Request) -> web.StreamResponse:
        """One request of an agent, under the instruction of its conversation."""
        key, body = _key_of(request), Body(await request.read())
        with self.calling(key) as candidate:
            sent, answer = body.under(candidate, self._render), Answer()
            self._learn_setting(body)
            try:
                response = await self._ask(request, body, sent, answer)
                if answer.is_lost:  # the request was too late for the connection, not wrong
                    answer = Answer()
                    response = await self._ask(request, body, sent, answer)
            except BudgetError as error:
                self.answered(key, "", "", broken=str(error))
                return _refusal(402, str(error))  # clients do not try again after this one
            except asyncio.CancelledError:
                # Nothing is counted where nothing came, or where the gateway closes.
                if answer.has_begun and not self._stopped.is_set():
                    self._count(key, body, answer)
                raise
            if response.status < 400 or answer.wrong:
                self._count(key, body, answer)
            return response

    async def _ask(
        self, request: web.Request, body: Body, sent: bytes, answer: Answer
    ) -> web.StreamResponse:
        """Send one request to the upstream, and pay for it."""
        with self._paid(body, sent) as attempt:
            response = await self._pass(request, sent, answer)
            attempt.used(*((0, 0) if answer.is_free else answer.usage))
        return response

    def _count(self, key: str, body: Body, answer: Answer) -> None:
        """Count an answer, or as much of it as the agent waited for."""
        if answer.is_abandoned and not answer.has_begun:
            return
        said = "" if answer.wrong else answer.text
        self.answered(key, body.said_last(), said, masked(answer.wrong), body.text)

    def _paid(self, body: Body, sent: bytes) -> AbstractContextManager[Attempt]:
        """Reserve the most that a request can cost."""
        limits = [body.fields.get(name) for name in _LIMITS]
        longest = max((_limit_of(limit) for limit in limits if limit is not None), default=0)
        choices = max(1, *(_number_of(body.fields.get(name)) for name in _CHOICES))
        model = str(body.fields.get("model")).encode(errors="replace").decode()
        return self._spending.paid(model, sent.decode(), (longest or _LONGEST_ANSWER) * choices)

    async def _pass(self, request: web.Request, sent: bytes, answer: Answer) -> web.StreamResponse:
        """Return the upstream's answer, byte for byte once unpacked; 502 where there is none."""
        own, headers = self.upstream(_key_of(request)), _passed(request.headers)
        shown = f"Bearer {self._upstream_key}" if self._upstream_key else ""
        if shown := request.headers.get("Authorization", "") if own else shown:
            headers["Authorization"] = shown
        headers["Accept-Encoding"] = "identity"
        url = (own or self.settings.upstream).rstrip("/") + request.path_qs.removeprefix("/v1")
        has_come = False
        try:
            async with self._session.request(
                request.method,
                url,
                data=sent or None,
                headers=headers,
                allow_redirects=False,
                proxy=_proxy_of(url),
                trace_request_ctx=answer,
            ) as came:
                has_come, answer.is_free = True, came.status >= 400
                if came.content_type == "text/event-stream":
                    return await _stream(request, came, answer)
                content = await came.read()
                if came.status >= 500 or came.status in _NOT_THE_AGENTS:
                    answer.wrong = f"the upstream answers {came.status}"
                elif came.status < 400:
                    answer.read(content)
                if came.status in (401, 403) or (answer.wrong and came.status < 400):
                    return _refusal(502, answer.wrong)
                return web.Response(status=came.status, body=content, headers=_passed(came.headers))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            is_closed = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
            is_unsent = isinstance(error, aiohttp.ClientConnectorError | ValueError)
            answer.is_free |= is_unsent and not has_come
            answer.is_lost = is_closed and answer.on_kept_connection and not has_come
            answer.wrong = f"the upstream does not answer: {format_error(error)}"
            return _refusal(502, answer.wrong)

    def _learn_setting(self, body: Body) -> None:
        """Lets the writer of instructions see the first chat that comes, and its tools."""
        messages, tools = body.fields.get("messages"), body.fields.get("tools")
        if messages and not self.engine.setting.prompt:
            shown = marked_prompt(messages, self._render)
            schemas = tools if isinstance(tools, list) else ()
            self.engine.setting = replace(self.engine.setting, prompt=shown, tools=schemas)


async def _stream(
    request: web.Request, came: aiohttp.ClientResponse, answer: Answer
) -> web.StreamResponse:
    """Pass server-sent events as they come; break off where they are no answer.

    It ends early, and without a complaint, where the agent has closed the connection.
    """
    response = web.StreamResponse(status=came.status, headers=_passed(came.headers))
    try:
        await response.prepare(request)
        async for piece in came.content.iter_any():
            answer.read_events(piece)
            if answer.wrong:
                break
            await response.write(piece)
        answer.end()
    except (aiohttp.ClientPayloadError, aiohttp.ServerConnectionError, OSError) as error:
        if isinstance(error, aiohttp.ClientConnectionResetError):
            answer.is_abandoned = True
            return response
        answer.wrong = f"the upstream died in its answer: {format_error(error)}"
    if answer.wrong and request.transport is not None:
        request.transport.close()
    return response


def _reuse_tracing() -> aiohttp.TraceConfig:
    """Return what notes in an answer that its request uses a connection of an earlier one."""

    async def note(session: object, context: Any, parameters: object) -> None:
        del session, parameters
        context.trace_request_ctx.on_kept_connection = True

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(note)
    return tracing


def _proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for a URL.

    None stands for no proxy: ``NO_PROXY`` excludes the host, or the host is this machine.

    Raises:
        ValueError: the proxy speaks no HTTP.
    """
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    is_local = parts.hostname in (None, *_LOOPBACK)
    if not proxy or is_local or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ValueError(f"the proxy of the environment is {proxy}; required: one of http or https")
    return proxy


def _limit_of(value: object) -> int:
    """Return the tokens that a limit lets through: one that is no count from 1 on limits nothing.

    Servers read some of these in ways of their own, so they count as the larger number.
    """
    number = _number_of(value)
    is_limit = isinstance(value, int) and not isinstance(value, bool) and number >= 1
    return min(number if is_limit else max(number, _LONGEST_ANSWER), _MAX_TOKENS)


def _number_of(value: object) -> int:
    """Return a number as a lenient server reads it; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0
    try:
        return int(value) if isinstance(value, int) else int(float(value))
    except (ValueError, OverflowError):
        return 0


def _key_of(request: web.Request) -> str:
    return request.headers.get(KEY_HEADER, "") or _bearer_of(request)


def _bearer_of(request: web.Request) -> str:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that go on to the other side."""
    return {
        name: value
        for name, value in headers.items()
        if name.lower() not in _NOT_PASSED
        and not (name.lower() == "content-encoding" and value.strip().lower() in _UNPACKED)
    }


def _refusal(status: int, why: str) -> web.Response:
    error = {"message": masked(why), "type": "evoprompt_gateway", "code": status}
    return web.Response(
        status=status, body=json.dumps({"error": error}), content_type="application/json"
    )
