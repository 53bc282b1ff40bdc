"""The socket that clients ask, and uvicorn's settings for serving it."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

from evoprompt.errors import InputError
from evoprompt_retrieval.connections import ImpatientProtocol
from evoprompt_retrieval.requests import ServerLimits

BACKLOG = 4096
DRAIN = 10
"""Seconds that answers under way may take when the server ends; Docker waits as long."""


def bind_each(host: str, port: int, workers: int) -> list[socket.socket]:
    """A socket for each worker, all with one address; clients are refused until one listens.

    The system deals connections out by their addresses, evenly. From one socket that all share, the
    worker that wakes up first takes most of those that come together, and they stay with it.

    Raises:
        InputError: the address cannot be had.
    """
    if workers == 1:
        return [bind(host, port)]
    with bind(host, port) as free:  # refused where another server is, which sharing would join
        port = free.getsockname()[1]
    return [bind(host, port, shared=True) for _ in range(workers)]


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A socket with an address; clients are refused until it listens. Port 0 is any free one.

    Args:
        host: address to listen on.
        port: number of the port.
        shared: whether other sockets of this user may have the address, too.

    Raises:
        InputError: the address cannot be had.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # asyncio sets this itself only for sockets that it made; without it, every answer on a kept
    # connection waits 40 ms for the client's acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(
            f"cannot listen on {host}:{port} ({error}); required: a free port of this machine; "
            "choose another --port or --host"
        ) from error
    return listener


def server_config(
    app: Starlette | Callable[[], Starlette], limits: ServerLimits, drain: int
) -> uvicorn.Config:
    """How uvicorn serves ``app``, or what it makes in the process that serves."""
    return uvicorn.Config(
        app,
        factory=not isinstance(app, Starlette),
        http=ImpatientProtocol,
        loop="uvloop",
        ws="none",
        log_level="warning",
        access_log=False,
        backlog=BACKLOG,
        timeout_keep_alive=limits.seconds,
        timeout_graceful_shutdown=drain,
    )


def make_server(
    app: Starlette, limits: ServerLimits | None = None, drain: int = DRAIN
) -> uvicorn.Server:
    """A server for ``app``; its ``run(sockets=[...])`` returns after SIGINT or SIGTERM."""
    return uvicorn.Server(server_config(app, limits or ServerLimits(), drain))


def allow_many_connections() -> None:
    """Raises this process's limit of open files as far as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
