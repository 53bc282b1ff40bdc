"""Transfer of a request to the upstream and of its answer, with limits, a reader and an outcome."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import aiohttp
from aiohttp import web

from evoprompt.agents.answers import AnswerReader
from evoprompt.lm.connections import MAX_BODY_BYTES
from evoprompt.lm.events import EventReader, ServerEvent
from evoprompt.lm.http import BoundedClient, pieces_of, read_whole
from evoprompt.lm.outcomes import ExchangeOutcome, decide_outcome, form_of, is_account_empty
from evoprompt.support.credentials import MASK, masked
from evoprompt.support.errors import LmError
from evoprompt.support.text import format_error

KEY_HEADER = "X-Evoprompt-Conversation"
"""Header with the key of a conversation, for agents whose API key is something else."""

_OWN_HEADERS = {  # of one connection alone, a secret of one side, or a way around the gateway
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
    *("transfer-encoding", "upgrade", "accept-encoding", "expect", "date", "server", "host"),
    *("content-length", "x-goog-user-project", "proxy-connection"),
    *("forwarded", "x-real-ip", "via", "origin", "referer"),
    *("location", "content-location", "refresh", "alt-svc", KEY_HEADER.lower()),
}
_SECRET_NAME = re.compile(
    r"(^|[-_]|api)(key|token|secret|auth|authorization|credentials?|password|cookie2?)$"
)
_PUBLIC_KEYS = ("idempotency-key", "x-idempotency-key")
_OWN_PREFIXES = ("x-forwarded-", "sec-fetch-", "access-control-")
# Codings of bodies that are read, and passed, unpacked.
_UNPACKED = ("gzip", "deflate", "br", "zstd")
_MIN_START_BYTES = 8  # that distinguish a stream from another answer


class PassedExchange:
    """A request to the upstream, with the state of its answer.

    Args:
        is_read: whether the answer is one of the policy.
        is_stream_requested: whether the request asks for events.
        hides_usage: whether the event with the usage is withheld from the agent, which did not
            request it.
        on_complete: is called before the agent receives the end of a stream.

    Attributes:
        counted: the answer and the failure reason that are recorded; None for nothing.
        reader: of the answer.
        status: of the answer; None without an answer.
        error: of the connection.
        is_left: whether the agent has closed its connection.
        is_on_kept_connection: whether an earlier request used the same connection.
        is_lost: whether the upstream closed a reused connection without an answer.
        is_unsent: whether the upstream did not receive the request.
        is_account_empty: whether the account at the upstream has no credit left.
    """

    def __init__(
        self,
        *,
        is_read: bool = True,
        is_stream_requested: bool = False,
        hides_usage: bool = False,
        on_complete: Callable[[PassedExchange], None] = lambda exchange: None,
    ) -> None:
        self.is_read = is_read
        self.reader = AnswerReader()
        self.is_stream_requested = is_stream_requested
        self.hides_usage = hides_usage
        self.on_complete = on_complete
        self.counted: tuple[str, str] | None = None
        self.status: int | None = None
        self.content_type = ""
        self.beginning = b""
        self.error = ""
        self.is_left = self.is_on_kept_connection = self.is_lost = False
        self.is_unsent = self.is_account_empty = False

    @property
    def is_free(self) -> bool:
        """Return whether the upstream refused the request, or did not receive it."""
        return self.is_unsent or (self.status or 0) >= 300

    def decide(self) -> tuple[ExchangeOutcome, str]:
        """Return the outcome, with a reason if there is no answer of the policy."""
        exchange = self.reader.exchange(
            status=self.status,
            is_stream_requested=self.is_stream_requested,
            content_type=self.content_type,
            beginning=self.beginning,
            is_left=self.is_left,
            error=self.error,
        )
        return decide_outcome(exchange)


class UpstreamClient(BoundedClient):
    """The connections of a gateway to its upstreams.

    Args:
        secret: key of the upstream, which no agent reads.
    """

    def __init__(self, secret: str) -> None:
        super().__init__(is_traced=True)
        self._secret = secret.encode(errors="surrogateescape")

    async def pass_on(
        self,
        request: web.BaseRequest,
        url: str,
        sent: bytes,
        headers: Mapping[str, str],
        exchange: PassedExchange,
    ) -> web.StreamResponse:
        """Return the upstream's answer, unpacked and else unchanged; status 502 without one."""
        try:
            async with self.request(request.method, url, sent, headers, exchange) as answer:
                exchange.status, exchange.content_type = answer.status, answer.content_type
                return await self._answer(request, answer, exchange)
        except (aiohttp.ClientError, TimeoutError, ValueError, LmError) as error:
            is_closed = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
            has_come = exchange.status is not None
            is_unsent = isinstance(error, aiohttp.ClientConnectorError | ValueError)
            exchange.is_unsent = is_unsent and not has_come
            exchange.is_lost = is_closed and exchange.is_on_kept_connection and not has_come
            exchange.error = f"the upstream does not answer: {format_error(error)}"
        return refusal(502, exchange.decide()[1])

    async def _answer(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, exchange: PassedExchange
    ) -> web.StreamResponse:
        beginning = await _beginning(answer, exchange)
        exchange.beginning = beginning[:200]
        form = form_of(
            answer.status,
            answer.content_type,
            beginning,
            is_stream_requested=exchange.is_stream_requested,
        )
        if form == "events":
            return await self._stream(request, answer, beginning, exchange)
        content = await read_whole(answer, beginning)
        exchange.beginning = content[:200]
        if answer.status < 300 and not exchange.is_read:
            return web.Response(body=content, headers=passed_headers(answer.headers, self._masked))
        if answer.status < 300:
            exchange.reader.read_whole(content)
        exchange.is_account_empty = is_account_empty(answer.status, content)
        outcome, reason = exchange.decide()
        if exchange.is_account_empty:  # clients do not try again after this status
            text = content.decode(errors="replace")[:500]
            return refusal(402, f"the account at the upstream is empty: {text}")
        is_hidden = answer.status in (401, 403) or outcome is ExchangeOutcome.ELSEWHERE
        if is_hidden or (outcome is ExchangeOutcome.BROKEN and answer.status < 400):
            return refusal(502, reason)
        output = self._without_secret(content) if answer.status >= 400 else content
        return web.Response(
            status=answer.status, body=output, headers=passed_headers(answer.headers, self._masked)
        )

    async def _stream(
        self,
        request: web.BaseRequest,
        answer: aiohttp.ClientResponse,
        beginning: bytes,
        exchange: PassedExchange,
    ) -> web.StreamResponse:
        """Pass server-sent events as they come; break off if they are no answer.

        If the agent has closed the connection, the stream ends early without an error.
        """
        headers = passed_headers(answer.headers, self._masked)
        headers["Content-Type"] = "text/event-stream"
        response = web.StreamResponse(status=answer.status, headers=headers)
        events, reader, size = EventReader(), exchange.reader, 0
        try:
            await response.prepare(request)
            async for piece in pieces_of(answer, beginning):
                size += len(piece)
                if size > MAX_BODY_BYTES:
                    raise LmError(f"the stream has more than {MAX_BODY_BYTES:,} bytes")
                new_events = events.read(piece)
                reader.read_events(new_events)
                if reader.is_complete and exchange.counted is None:
                    exchange.on_complete(exchange)
                await self._write(response, new_events, exchange)
                if reader.error:
                    break
            else:
                last_events = events.end()
                reader.read_events(last_events)
                await self._write(response, last_events, exchange)
        except (aiohttp.ClientError, TimeoutError, OSError, LmError) as error:
            if isinstance(error, aiohttp.ClientConnectionResetError):
                exchange.is_left = True
                return response
            exchange.error = f"the upstream broke off its answer: {format_error(error)}"
        if exchange.decide()[0] is ExchangeOutcome.BROKEN and request.transport is not None:
            request.transport.close()
        return response

    async def _write(
        self, response: web.StreamResponse, events: Sequence[ServerEvent], exchange: PassedExchange
    ) -> None:
        """Write whole events: a secret of an error may come in two pieces."""
        output = b"".join(
            event.raw for event in events if not (exchange.hides_usage and _is_usage(event.data))
        )
        if output:
            is_error = bool(exchange.reader.error)
            await response.write(self._without_secret(output) if is_error else output)

    def _without_secret(self, content: bytes) -> bytes:
        return content.replace(self._secret, MASK.encode()) if self._secret else content

    def _masked(self, value: str) -> str:
        secret = self._secret.decode(errors="surrogateescape")
        return value.replace(secret, MASK) if secret else value


def passed_headers(headers: Mapping[str, str], mask: Callable[[str], str] = str) -> dict[str, str]:
    """Return the headers that are passed to the other side."""
    of_connection = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    return {
        name: mask(value)
        for name, value in headers.items()
        if _is_passed(name)
        and name.lower() not in of_connection
        and not (name.lower() == "content-encoding" and value.strip().lower() in _UNPACKED)
    }


@lru_cache(maxsize=1024)
def _is_passed(name: str) -> bool:
    """Return whether a header is neither of one connection nor by its name a secret."""
    lower = name.lower()
    is_secret = _SECRET_NAME.search(lower) is not None and lower not in _PUBLIC_KEYS
    return not is_secret and lower not in _OWN_HEADERS and not lower.startswith(_OWN_PREFIXES)


def refusal(status: int, reason: str) -> web.Response:
    """Return an error in the form that all protocols read."""
    error = {"message": masked(reason), "type": "evoprompt_gateway", "code": status}
    return web.Response(
        status=status,
        body=json.dumps({"error": error, "type": "error"}),
        content_type="application/json",
    )


async def _beginning(answer: aiohttp.ClientResponse, exchange: PassedExchange) -> bytes:
    """Return the first bytes of an answer, as many as determine its form."""
    content = await answer.content.readany()
    while (
        exchange.is_stream_requested
        and answer.content_type != "text/event-stream"
        and len(content.lstrip()) < _MIN_START_BYTES
        and (piece := await answer.content.readany())
    ):
        content += piece
    return content


def _is_usage(data: bytes) -> bool:
    if b'"usage"' not in data:
        return False
    try:
        read = json.loads(data)
        return bool(read.get("usage")) and read.get("choices") == []
    except (ValueError, RecursionError, AttributeError):
        return False
