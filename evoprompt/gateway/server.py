"""OpenAI-compatible server that places the instruction in requests: ``evoprompt.Gateway``.

The server uses aiohttp. In front of an upstream that answers after half a second, with 320 requests
of which 64 were concurrent, bare proxies on Starlette with httpx and on aiohttp served 24 and 118
requests a second. With 1,000 concurrent requests the former reset connections (2026-11-26).
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from ipaddress import ip_address
from typing import Any, Self, TypeVar, cast
from urllib.parse import unquote, urlsplit

try:
    from aiohttp import web
except ModuleNotFoundError as error:
    if error.name == "aiohttp":
        error.add_note('required: aiohttp; pip install -e ".[gateway]"')
    raise
from pydantic import TypeAdapter, ValidationError, validate_call

from evoprompt.engine import Engine
from evoprompt.gateway.conversations import Conversations
from evoprompt.gateway.passing import (
    KEY_HEADER,
    PassedExchange,
    UpstreamClient,
    passed_headers,
    refusal,
)
from evoprompt.gateway.rewriting import Body, Protocol
from evoprompt.gateway.settings import GatewaySettings
from evoprompt.hosting.prompts import PLACEMENTS, marked_prompt
from evoprompt.lm.budget import Attempt, Charge, Spending, SpendTracker, require_prices
from evoprompt.lm.connections import (
    HEAD_SECONDS,
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    join_url,
    probe_peers,
    unpack_body,
)
from evoprompt.lm.keys import key_for, require_key
from evoprompt.lm.outcomes import ExchangeOutcome
from evoprompt.lm.settings import BudgetSettings
from evoprompt.plugins import require_type
from evoprompt.support.credentials import keep_secret, masked
from evoprompt.support.errors import BudgetError, EvopromptError, InputError
from evoprompt.support.text import format_error
from evoprompt.types import Candidate

ResultT = TypeVar("ResultT")

TOKEN = "EVOPROMPT_GATEWAY_TOKEN"
"""Environment variable with the token of trainers; without it each gateway draws a token."""

SPENDING = "upstream-spending.jsonl"
"""Journal of the cost of requests, in the directory of a gateway with a budget."""

_PROTOCOLS: Mapping[str, Protocol] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
}
_PLAIN_PATHS = ("/v1/embeddings", "/v1/rerank", "/v1/tokenize", "/v1/messages/count_tokens")
_REWARD_PATH = re.compile(r"/conversations/(?P<key>[^/]+)/reward")
_MODEL_PATH = re.compile(r"/v1/models/(?!(.*(/|%2f|\\|%5c))?(\.|%2e){1,2}([/;\\%]|$)).+", re.I)
"""Path of a model, without steps to a folder above."""

_OWN_SITES = ("none", "same-origin")
_AGENT_PATHS = (*_PROTOCOLS, *_PLAIN_PATHS)  # plain HTTP clients send no type with bytes
_SERVED_PATHS = ", ".join([*_PROTOCOLS, *_PLAIN_PATHS, "/v1/models", "/health, /conversations"])
_BODY_SECONDS = 60.0  # for the body of a request
_MAX_ANSWER_TOKENS = 32_768  # for the budget, of an answer without a limit of its length
_MAX_CONTEXT_TOKENS = 10_000_000  # for the budget: no model has a longer context
_LIMIT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_CHOICE_FIELDS = ("n", "best_of")


_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _PathError(EvopromptError):
    """No such path is served, or not with this method."""

    def __init__(self, request: web.BaseRequest, status: int) -> None:
        self.status = status
        reason = "Not Found" if status == 404 else "Method Not Allowed"
        super().__init__(
            f"{request.method} {request.path:.200}: {reason}; required: one of {_SERVED_PATHS}"
        )


class _TokenError(EvopromptError):
    """A request to a path for trainers does not have their token."""

    status = 401


class _ForbiddenError(EvopromptError):
    """A request comes from a page of another site, or by an unknown name of this machine."""

    status = 403


class _MediaTypeError(EvopromptError):
    """The body is of a type that is not served."""

    status = 415


class _Connection(web.RequestHandler):
    """Connection of an agent; a request that is no HTTP is refused in the form of the protocol."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the refusal of a request that cannot be read."""
        reason = " ".join(str(message or exc).split())
        response = refusal(status, f"the request cannot be read: {reason:.300}; required: HTTP/1.1")
        response.force_close()
        return response


class Gateway(Conversations):
    """A proxy between agents and a model; each conversation has one instruction.

    ::

        settings = GatewaySettings(upstream=URL, directory="runs/gateway", rollouts=4)
        with evoprompt.Gateway(engine, settings) as gateway:
            key = gateway.conversation(evoprompt.Question("q1", "What is 2 + 2?"), "step 1, q1")
            answer = my_agent(base_url=gateway.url, api_key=key)
            gateway.reward(key, 1.0 if answer == "4" else 0.0)

    A gateway is bound to the engine until it is closed.

    Attributes:
        token: API key of trainers, over HTTP.

    Args:
        engine: source of the candidates and recipient of the rewards; it must need no rollouts of
            its own.
        settings: the addresses, the size of a step, and the budget.
        clock: seconds that only go forward.

    Raises:
        InputError: a setting cannot be used, or the engine needs rollouts of its own.
        StateError: the content of the directory is damaged.
    """

    def __init__(
        self,
        engine: Engine,
        settings: GatewaySettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require_type("engine", engine, Engine)
        require_type("settings", settings, GatewaySettings)
        require_key(settings.key, "key")
        self.token = os.environ.get(TOKEN, "") or secrets.token_urlsafe(24)
        self._upstream_key = key_for(settings.upstream, settings.key)
        for secret in filter(None, (self.token, self._upstream_key)):
            keep_secret(secret)
        require_prices(settings.budget, settings.prices, "the upstream")
        limited = settings.budget != BudgetSettings()  # a journal takes a millisecond of a request
        tracker = SpendTracker(settings.directory / SPENDING if limited else None)
        self._spending = Spending(tracker, settings.budget, settings.prices)
        self._is_limited = limited
        self._counts_tokens = (settings.budget.tokens, settings.budget.usd) != (None, None)
        self._client = UpstreamClient(self._upstream_key)
        self._hosts = {"localhost", settings.host, socket.gethostname(), *settings.hosts}
        super().__init__(engine, settings, clock)
        self._render = PLACEMENTS[settings.placement]
        self._open_validated = validate_call(self.conversation)
        self._reward_validated = validate_call(self.reward)
        self.port = settings.port
        self._loop, self._stopped = asyncio.new_event_loop(), asyncio.Event()
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Return the base URL for agents, such as ``http://127.0.0.1:41234/v1``."""
        host = self.settings.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"

    def __enter__(self) -> Self:
        """Start to listen.

        Raises:
            GatewayStoppedError: the gateway is closed.
            OSError: the gateway cannot listen at the host and port.
        """
        with self._require_running():
            host, port = self.settings.host, self.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family, backlog=4096)
            probe_peers(listening)
        except OSError as error:
            self.close()
            raise OSError(
                error.errno,
                f"the gateway cannot listen at {host}:{port} ({error.strerror}); required: a free "
                "port; set another one, or port: 0 for any",
            ) from error
        self.port = listening.getsockname()[1]
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(listening),), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and save everything; the next gateway continues open conversations."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()
            self._thread = None
        self._loop.close()
        super().close()

    async def _serve(self, listening: socket.socket) -> None:
        server = web.Server(self._answer, request_factory=_request, handler_cancellation=True)

        def connect() -> _Connection:
            return _Connection(
                server,
                loop=self._loop,
                access_log=None,  # type: ignore[arg-type]
                keepalive_timeout=HEAD_SECONDS,  # until the head of a request has come
                lingering_time=2.0,  # in which the rest of a refused body is thrown away
                auto_decompress=False,  # a body is not unpacked before its agent is known
                max_line_size=MAX_HEADER_BYTES,
                max_field_size=MAX_HEADER_BYTES,
            )

        async with self._client.connected():
            listener = await self._loop.create_server(connect, sock=listening, backlog=4096)
            while not self._stopped.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(
                        self._stopped.wait(), min(self.settings.timeout / 10, 1.0)
                    )
                with suppress(Exception):  # the gateway has stopped, which each request reports
                    await _in_thread(self.expire)
            listener.close()
            server.pre_shutdown()
            await server.shutdown(2.0)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request, and every error in the form of the protocol."""
        response = await self._guarded(request)
        if request.writer.output_size and not response.prepared:  # an error after half a stream
            raise ConnectionError
        return response

    async def _guarded(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._require_own_host(request)
            return await self._handler_of(request)(request)
        except web.HTTPException as error:  # of the body's size
            return refusal(error.status, f"{error.reason}; required: {MAX_BODY_BYTES:,} bytes")
        except ValidationError as error:
            fault = error.errors()[0]
            location = ".".join(map(str, fault["loc"])) or "the body"
            return refusal(400, f"{location:.100} cannot be read: {fault['msg']}")
        except EvopromptError as error:
            return refusal(getattr(error, "status", 400), str(error))
        except OSError as error:
            return refusal(503, f"the gateway cannot write or connect: {format_error(error)}")
        except Exception as error:
            reason = f"the gateway failed at this request: {format_error(error)}"
            return refusal(500, f"{reason}; required: a report of it, with the request")

    def _handler_of(self, request: web.BaseRequest) -> _Handler:
        """Return the handler of a request.

        Raises:
            _PathError: the path is not served, or not with this method.
        """
        path = request.rel_url.raw_path
        if path in _PROTOCOLS:
            method, handler = "POST", self._handle_completion
        elif path in _PLAIN_PATHS:
            method, handler = "POST", self._handle_passing
        elif path == "/v1/models" or _MODEL_PATH.fullmatch(path):
            method, handler = "GET", self._handle_passing
        elif path == "/health":
            method, handler = "GET", self._handle_health
        elif path == "/conversations":
            method, handler = "POST", self._handle_opening
        elif _REWARD_PATH.fullmatch(path):
            method, handler = "POST", self._handle_reward
        else:
            raise _PathError(request, 404)
        if request.method != method:
            raise _PathError(request, 405)
        return handler

    def _require_own_host(self, request: web.BaseRequest) -> None:
        """Make sure that a request is not from another site or by a name of its choice.

        Raises:
            _ForbiddenError: the origin or the host is foreign.
        """
        origin = request.headers.get("Origin")
        own_origins = (f"http://{request.host}", f"https://{request.host}")
        is_foreign = origin is not None and origin not in own_origins
        if is_foreign or request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES:
            raise _ForbiddenError(
                f"the origin is {origin!r:.100}; required: no page of another site"
            )
        name = ""
        with suppress(ValueError):
            name = urlsplit(f"//{request.host}").hostname or ""
            ip_address(name)
            return
        if name not in self._hosts and request.path != "/health":
            raise _ForbiddenError(
                f"the host is {name!r:.100}; required: an address, or one of "
                f"{', '.join(sorted(self._hosts))}; add it to hosts of the gateway"
            )

    async def _handle_health(self, request: web.BaseRequest) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _body(self, request: web.BaseRequest) -> bytes:
        """Return the body of a request whose agent or trainer is known, unpacked.

        Raises:
            _MediaTypeError: the body is not JSON.
            InputError: the body cannot be unpacked, its coding is unknown, or it does not come.
        """
        content_type = request.headers.get("Content-Type")
        is_left_out = content_type is None and request.path in _AGENT_PATHS
        if not is_left_out and request.content_type != "application/json":
            required = "required: application/json"
            raise _MediaTypeError(f"the content type is {content_type!r:.100}; {required}")
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                content = await request.read()
        except TimeoutError as error:
            raise InputError(f"the body did not come in {_BODY_SECONDS:g} s") from error
        return unpack_body(content, request.headers.get("Content-Encoding", ""))

    # -------------------------------------------------------------------------------- for trainers

    async def _handle_opening(self, request: web.BaseRequest) -> web.Response:
        fields = await self._read_trainer_body(request)
        upstream = fields.get("upstream") or ""
        if upstream and not _is_allowed(str(upstream), self.settings.upstreams):
            raise InputError(
                f"the upstream is {upstream!r:.200}; required: one below those of the setting "
                f"upstreams ({', '.join(self.settings.upstreams) or 'none'})"
            )
        if fields.get("key") == self.token:
            raise InputError("the key is the token of trainers; required: another key")
        return web.json_response({"key": self._open_validated(**fields)})

    async def _handle_reward(self, request: web.BaseRequest) -> web.Response:
        fields = await self._read_trainer_body(request)
        path = _REWARD_PATH.fullmatch(request.rel_url.raw_path)
        key = unquote(path["key"] if path else "")
        end_conversation = partial(self._reward_validated, key, **fields)
        reason = await _in_thread(end_conversation)
        return web.json_response({"counted": not reason, "why": reason})

    async def _read_trainer_body(self, request: web.BaseRequest) -> dict[str, Any]:
        """Return the fields of a request with the token of trainers.

        Raises:
            _TokenError: the API key is not the token.
        """
        api_key = _bearer_of(request).encode(errors="surrogateescape")
        if not hmac.compare_digest(api_key, self.token.encode(errors="surrogateescape")):
            raise _TokenError(
                f"{request.method} {request.path}: the API key is not the token of trainers; "
                f"required: Authorization: Bearer TOKEN, with the value of {TOKEN}, or with the "
                "token that the gateway printed at its start"
            )
        return TypeAdapter(dict[str, Any]).validate_json(await self._body(request))

    # ---------------------------------------------------------------------------------- for agents

    async def _handle_passing(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request that has no place for an instruction, and needs none."""
        key = _key_of(request)
        self.upstream(key)
        sent = await self._body(request) if request.method == "POST" else b""
        exchange = PassedExchange(is_read=False)
        if not sent:
            return await self._pass(request, sent, exchange)
        with self._paid(Body(sent), sent, 0) as attempt:
            response = await self._pass(request, sent, exchange)
            if exchange.is_free:
                attempt.used(0, 0)
        return response

    async def _handle_completion(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request of an agent, under the instruction of its conversation."""
        key = _key_of(request)
        self.upstream(key)  # the body is read only if the key is known
        body = Body(await self._body(request), _PROTOCOLS[request.rel_url.raw_path])
        async with self._candidate_of(key) as candidate:
            sent = body.place_texts(candidate, self._render)
            await self._record_context(body)
            is_stream = body.fields.get("stream") is True
            options = body.fields.get("stream_options")
            is_usage_wanted = isinstance(options, dict) and options.get("include_usage")
            hides = (
                is_stream
                and body.protocol == "chat"
                and self._counts_tokens
                and not is_usage_wanted
            )
            if hides:
                sent = body.request_usage(sent)
            try:
                for _ in range(2):
                    exchange = PassedExchange(
                        is_stream_requested=is_stream,
                        hides_usage=hides,
                        on_complete=partial(self._count, key, body),
                    )
                    response = await self._ask(request, body, sent, exchange)
                    if not exchange.is_lost:
                        break  # else the request was too late for the connection, not wrong
            except BudgetError as error:
                self.record_answer(key, "", "", broken=str(error))
                return refusal(402, str(error))  # clients do not try again after this one
            except asyncio.CancelledError:
                # An answer without content is not counted, nor any while the gateway closes.
                exchange.is_left = True
                if not self._stopped.is_set():
                    self._count(key, body, exchange)
                raise
            self._count(key, body, exchange)
            return response

    @asynccontextmanager
    async def _candidate_of(self, key: str) -> AsyncIterator[Candidate]:
        """Enter :meth:`calling` without a wait for the engine in the event loop."""
        calling, candidate = self.calling(key), None
        with self._lock:
            if not self.must_wait(key):
                candidate = calling.__enter__()
        if candidate is None:
            candidate = await _in_thread(calling.__enter__)
        try:
            yield candidate
        finally:
            calling.__exit__(None, None, None)

    async def _ask(
        self, request: web.BaseRequest, body: Body, sent: bytes, exchange: PassedExchange
    ) -> web.StreamResponse:
        """Send one request to the upstream, and pay for it."""
        with self._paid(body, sent, _MAX_ANSWER_TOKENS) as attempt:
            response = await self._pass(request, sent, exchange)
            attempt.used(*((0, 0) if exchange.is_free else exchange.reader.usage))
        return response

    def _count(self, key: str, body: Body, exchange: PassedExchange) -> None:
        """Record an answer, or the part of it that came before the agent closed the connection."""
        outcome, reason = exchange.decide()
        message = exchange.reader.message
        has_come = message.has_content or message.has_thought
        if outcome is ExchangeOutcome.CUT and not has_come:
            return
        if outcome is not ExchangeOutcome.REFUSED:
            counted = "" if reason else message.action, masked(reason) if reason else ""
            if counted != exchange.counted:
                self.record_answer(key, body.read_observation(), *counted, body.text)
                exchange.counted = counted

    def _paid(self, body: Body, sent: bytes, longest: int) -> AbstractContextManager[Attempt]:
        """Reserve the most that a request can cost, if there is a budget."""
        if not self._is_limited:
            return nullcontext(Attempt(self._spending, Charge()))
        limits = [body.fields.get(name) for name in _LIMIT_FIELDS]
        limit = max((_limit_of(limit) for limit in limits if limit is not None), default=longest)
        choices = max(1, *(_number_of(body.fields.get(name)) for name in _CHOICE_FIELDS))
        model = str(body.fields.get("model")).encode(errors="replace").decode()
        return self._spending.paid(model, sent.decode(), limit * choices)

    async def _pass(
        self, request: web.BaseRequest, sent: bytes, exchange: PassedExchange
    ) -> web.StreamResponse:
        """Send a request to the upstream of its conversation, with the key of that upstream."""
        own_upstream = self.upstream(_key_of(request))
        headers = passed_headers(request.headers)
        headers.pop("Content-Encoding", None)
        api_key = _key_of(request, with_header=False) if own_upstream else self._upstream_key
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
            if "messages" in request.path:
                headers["X-Api-Key"] = api_key
        headers["Accept-Encoding"] = "identity"
        path = request.rel_url.raw_path.removeprefix("/v1")
        url = join_url(
            own_upstream or self.settings.upstream, path, request.rel_url.raw_query_string
        )
        return await self._client.pass_on(request, url, sent, headers, exchange)

    async def _record_context(self, body: Body) -> None:
        """Store the first chat, and its tools, as the context of the proposer."""
        if not self.engine.setting.prompt and (chat := body.chat):
            tools = body.fields.get("tools")
            prompt, schemas = marked_prompt(chat, self._render), tools
            if not isinstance(schemas, list):
                schemas = []
            await _in_thread(partial(self.describe, prompt, schemas))


def _request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]
) -> web.BaseRequest:
    """Return a request whose body has the size that is allowed."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES
    )


async def _in_thread(function: Callable[[], ResultT]) -> ResultT:
    """Return the result of a function that may wait for the engine.

    Each call has a thread of its own: in a pool, waiting calls would block the remaining ones.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[ResultT] = loop.create_future()

    def settle(result: ResultT | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast(ResultT, result))

    def work() -> None:
        result, failure = None, None
        try:
            result = function()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="evoprompt-gateway", daemon=True).start()
    return await future


def _is_allowed(url: str, allowed: Sequence[str]) -> bool:
    """Return whether a URL is one of the allowed base URLs, or below one."""
    if set(url) & set("\\@?#%") or ".." in url:
        return False
    return any(url == base or url.startswith(f"{base.rstrip('/')}/") for base in allowed)


def _limit_of(value: object) -> int:
    """Return the tokens that a limit allows; a value that is no positive integer limits nothing.

    Servers differ in how they read such values, so the larger number counts.
    """
    number = _number_of(value)
    is_limit = isinstance(value, int) and not isinstance(value, bool) and number >= 1
    return min(number if is_limit else max(number, _MAX_ANSWER_TOKENS), _MAX_CONTEXT_TOKENS)


def _number_of(value: object) -> int:
    """Return a number as a lenient server reads it; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0
    try:
        return int(value) if isinstance(value, int) else int(float(value))
    except (ValueError, OverflowError):
        return 0


def _key_of(request: web.BaseRequest, *, with_header: bool = True) -> str:
    """Return the API key of a request, from any of the protocols' headers."""
    header_key = request.headers.get(KEY_HEADER, "") if with_header else ""
    return header_key or _bearer_of(request) or request.headers.get("X-Api-Key", "")


def _bearer_of(request: web.BaseRequest) -> str:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
