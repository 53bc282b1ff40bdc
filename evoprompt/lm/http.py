"""The client of servers of models: bounded connections, for the gateway and for policies."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

import aiohttp

from evoprompt.lm.connections import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    IDLE_SECONDS,
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    SILENCE_SECONDS,
    probe_peers,
    proxy_of,
)
from evoprompt.support.errors import LmError

_MAX_REDIRECTS = 3
_REDIRECT_STATUSES = (307, 308)  # that keep method and body


class BoundedClient:
    """Client with limits of time and size, the proxies of the environment, and no cookies.

    It follows redirects to the same server alone, so that a key reaches no other one.

    Args:
        silence: longest time without a byte of an answer, in seconds.
        total: longest time of a whole answer, in seconds.
        is_traced: whether each request has a context, whose ``is_on_kept_connection`` becomes true
            when an earlier request has used its connection.
    """

    def __init__(
        self,
        silence: float = SILENCE_SECONDS,
        total: float = ANSWER_SECONDS,
        *,
        is_traced: bool = False,
    ) -> None:
        self._timeout = aiohttp.ClientTimeout(
            total=total, sock_connect=min(CONNECT_SECONDS, silence), sock_read=silence
        )
        self._traces = [_reuse_tracing()] if is_traced else []
        self._session: aiohttp.ClientSession
        self._proxies: dict[str, str | None] = {}

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Self]:
        """Keep connections open inside the context, which is the client itself."""
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=IDLE_SECONDS, socket_factory=_probed_socket
            ),
            cookie_jar=aiohttp.DummyCookieJar(),  # else all agents and episodes share one
            timeout=self._timeout,
            trace_configs=self._traces,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        ) as self._session:
            yield self

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        content: bytes,
        headers: Mapping[str, str],
        context: object = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer to a request, unpacked.

        Args:
            method: method of the request.
            url: its address.
            content: its body; empty for none.
            headers: its headers.
            context: context of the request, if the client is traced.

        Raises:
            aiohttp.ClientError: there is no connection, or it was closed.
            TimeoutError: the server took too long.
            ValueError: the environment names a proxy that speaks no HTTP.
            LmError: the server redirects without end.
        """
        for _ in range(_MAX_REDIRECTS + 1):
            async with self._session.request(
                method,
                url,
                data=content or None,
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy_of(url),
                trace_request_ctx=context,
            ) as answer:
                target = _redirect_target(url, answer)
                if not target:
                    yield answer
                    return
            url = target
        raise LmError("the server redirects without end")

    def _proxy_of(self, url: str) -> str | None:
        """Return the proxy for a URL; the environment is read once for each server."""
        parts = urlsplit(url)
        server = f"{parts.scheme}://{parts.netloc}"
        if server not in self._proxies:
            self._proxies[server] = proxy_of(url)
        return self._proxies[server]


async def pieces_of(answer: aiohttp.ClientResponse, beginning: bytes = b"") -> AsyncIterator[bytes]:
    """Yield the body of an answer as it comes, after the ``beginning`` that was read before."""
    if beginning:
        yield beginning
    async for piece in answer.content.iter_any():
        yield piece


async def read_whole(
    answer: aiohttp.ClientResponse, beginning: bytes = b"", max_bytes: int = MAX_BODY_BYTES
) -> bytes:
    """Return the body of an answer.

    Raises:
        LmError: it has more than ``max_bytes``; the rest is not read.
    """
    pieces, size = [], 0
    async for piece in pieces_of(answer, beginning):
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            raise LmError(f"the answer has more than {max_bytes:,} bytes")
    return b"".join(pieces)


def _redirect_target(url: str, answer: aiohttp.ClientResponse) -> str:
    """Return the redirect address of an answer if the same request may go there; else empty."""
    if answer.status not in _REDIRECT_STATUSES:
        return ""
    target = urljoin(url, answer.headers.get("Location", ""))
    old, new = urlsplit(url), urlsplit(target)
    is_same = old.hostname == new.hostname and old.port == new.port and old.scheme == new.scheme
    is_safer = old.hostname == new.hostname and (old.scheme, new.scheme) == ("http", "https")
    return target if is_same or is_safer else ""


def _probed_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    connection = socket.socket(family, kind, protocol)
    probe_peers(connection)
    return connection


def _reuse_tracing() -> aiohttp.TraceConfig:
    """Return a tracing that marks requests on the connection of an earlier one."""

    async def note(session: object, context: Any, parameters: object) -> None:
        del session, parameters
        context.trace_request_ctx.is_on_kept_connection = True

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(note)
    return tracing
