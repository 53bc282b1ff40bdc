"""Server processes on one address, over one memory-mapped index, supervised by uvicorn.

Each process accepts from as many sockets as there are processes, which the supervisor keeps open: a
connection that is not yet accepted survives the end of a process and is taken by another.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread

import uvicorn
from starlette.applications import Starlette
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess

from evoprompt.support.errors import InputError
from evoprompt_retrieval.index import IndexSettings, open_index
from evoprompt_retrieval.requests import ServerLimits
from evoprompt_retrieval.server import create_app

BACKLOG = 4096
_PATIENCE = 30
"""Seconds without a health signal after which a process is replaced; a large batch takes some."""


@dataclass(frozen=True, slots=True)
class Application:
    """Factory of the web application in each process; can be pickled.

    Attributes:
        settings: of a finished index.
        hosts: further allowed names of the server.
    """

    settings: IndexSettings
    hosts: tuple[str, ...]

    def __call__(self) -> Starlette:
        """Return the web application; without it the process ends, and so does the server."""
        Thread(target=_end_with_parent, daemon=True).start()
        try:
            corpus, index = open_index(self.settings)
        except InputError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            sys.exit(STARTUP_FAILURE)
        return create_app(corpus, index, self.settings.backend, hosts=self.hosts)


def bind(host: str, port: int, workers: int) -> list[socket.socket]:
    """Return a socket per process, all with one address; clients are refused until one listens.

    The system distributes connections over them by their addresses. Port 0 is any free one.

    Raises:
        InputError: the address is not available.
    """
    with _bound(host, port) as free:  # refused if another server has it, which sharing would join
        port = free.getsockname()[1]
    return [_bound(host, port, shared=True) for _ in range(workers)]


def _bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared))
    # asyncio sets this itself only for sockets that it made; without it, every answer on a kept
    # connection waits 40 ms for the client's acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(
            f"cannot listen on {host}:{port} ({error}); required: a free port of this machine; "
            "choose another --port or --host"
        ) from error
    return listener


def configure(
    application: Application | Starlette,
    limits: ServerLimits,
    workers: int = 1,
    drain: int | None = None,
) -> uvicorn.Config:
    """Return uvicorn's configuration for an application, or for its factory in a process."""
    return uvicorn.Config(
        application,
        factory=not isinstance(application, Starlette),
        ws="none",
        access_log=False,
        backlog=BACKLOG,
        timeout_keep_alive=limits.seconds,
        timeout_worker_healthcheck=_PATIENCE,
        workers=workers,
        timeout_graceful_shutdown=drain,
    )


def serve(application: Application, listeners: Sequence[socket.socket], drain: int) -> None:
    """Serve until SIGINT or SIGTERM; finish the answers under way.

    Args:
        application: for every process.
        listeners: bound sockets, as many as processes.
        drain: seconds that answers under way may take when the server ends.

    Raises:
        InputError: a process could not open the index.
    """
    _, max_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))
    chosen = configure(application, ServerLimits(), len(listeners), drain)
    supervisor = Multiprocess(chosen, [*listeners])
    supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise InputError("a process could not start, so the server ended; the reason is above")


def _end_with_parent() -> None:
    """End this process if the supervisor was killed, so that it does not hold the port."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
