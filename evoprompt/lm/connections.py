"""Rules for every client of a model's server: proxies, addresses, sizes and deadlines."""

from __future__ import annotations

import socket
import zlib
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from evoprompt.support.errors import InputError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine."""

MAX_HEADER_BYTES = 2**16
"""Bytes of a header, in either direction."""

MAX_BODY_BYTES = 2**26
"""Bytes of an unpacked request or answer: a long conversation with pictures."""

IDLE_SECONDS = 4.0
"""Seconds until an unused connection is closed: uvicorn closes it after 5."""

HEAD_SECONDS = 75.0
"""Seconds until the head of a request has come, on a new connection or after the last answer."""

CONNECT_SECONDS = 30.0
"""Seconds until a server has accepted a connection."""

SILENCE_SECONDS = 600.0
"""Seconds without a byte of an answer: an answer without a stream may take that long."""

ANSWER_SECONDS = 3600.0
"""Seconds for a whole answer, even if its bytes come steadily."""

_WINDOW_BITS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}
_PROBE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for a URL.

    None stands for no proxy: ``NO_PROXY`` excludes the host, or the host is this machine.

    Raises:
        ValueError: the proxy speaks no HTTP.
    """
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    is_local = parts.hostname in (None, *LOOPBACK)
    if not proxy or is_local or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ValueError(f"the proxy of the environment is {proxy}; required: one of http or https")
    return proxy


def join_url(base: str, path: str, query: str = "") -> str:
    """Return the URL of a path below a base URL; the query of the base stays at the end.

    >>> join_url("http://host/v1?api-version=2026-01-01", "/models")
    'http://host/v1/models?api-version=2026-01-01'
    """
    parts = urlsplit(base)
    queries = "&".join(filter(None, (parts.query, query)))
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + path, queries, ""))


def unpack_body(content: bytes, coding: str) -> bytes:
    """Return a body without its content coding.

    Raises:
        InputError: the coding is unknown, the body has another coding, or it is too long once
            unpacked.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return content
    if coding not in _WINDOW_BITS:
        raise InputError(f"the content coding is {coding[:40]!r}; required: gzip, deflate or none")
    for bits in _WINDOW_BITS[coding]:
        unpacking = zlib.decompressobj(bits)
        try:
            unpacked = unpacking.decompress(content, MAX_BODY_BYTES + 1)
        except zlib.error:
            continue
        if len(unpacked) > MAX_BODY_BYTES:
            raise InputError(
                f"the body has more than {MAX_BODY_BYTES:,} bytes once it is unpacked; required: "
                "a shorter one"
            )
        if unpacking.eof:
            return unpacked
    raise InputError(f"the body is no whole {coding}; required: the coding of its header")


def probe_peers(connection: socket.socket) -> None:
    """Make the system close a connection when its other side has vanished without a message."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBE.items():
        if (option := getattr(socket, name, None)) is not None:  # not all systems have them
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
