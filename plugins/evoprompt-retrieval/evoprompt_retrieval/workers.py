"""Several processes that answer on one socket, over one memory-mapped index.

uvicorn's supervisor starts them and replaces those that die. Each listens on a socket of its own,
which the first process keeps open: a connection that nobody has accepted yet survives the death of
a worker, and waits for the one that takes its place.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket
from threading import Thread
from typing import NoReturn

from prometheus_client.multiprocess import mark_process_dead
from starlette.applications import Starlette
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from evoprompt.errors import InputError
from evoprompt_retrieval.backends import open_index
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.crew import Crew
from evoprompt_retrieval.index import Backend, DenseSettings
from evoprompt_retrieval.listening import server_config
from evoprompt_retrieval.metrics import SHARED
from evoprompt_retrieval.requests import ServerLimits
from evoprompt_retrieval.server import create_app
from evoprompt_retrieval.shared_folder import hold, shared_folder

_LOG = logging.getLogger(__name__)
_LATE = 5
"""Seconds after the limit of draining at which a worker that still runs is killed."""

Files = dict[str, tuple[int, int]]
"""Size and time of change, in nanoseconds, by name."""


@dataclass(frozen=True, slots=True)
class Application:
    """Makes the web application in each worker; can be pickled.

    Attributes:
        corpus: file of the passages.
        folder: holds a finished index.
        backend: its kind.
        dense: how vectors are searched.
        name: says in ``/health`` what is served.
        limits: of a request.
        hosts: further names under which the server may be asked.
        files: of corpus and index as the first process found them.
        crew: counts the workers that have opened the index.
    """

    corpus: Path
    folder: Path
    backend: Backend
    dense: DenseSettings
    name: str
    limits: ServerLimits
    hosts: tuple[str, ...]
    files: Files
    crew: Crew | None = None

    def __call__(self) -> Starlette:
        """The web application; a worker that cannot make it ends, and with it the server."""
        Thread(target=_end_with_parent, daemon=True).start()
        if self.crew:
            hold(self.crew.folder)
        try:
            found = files_of(self.corpus, self.folder)
            if found != self.files:
                changed = sorted(name for name, _ in self.files.items() ^ found.items())
                raise InputError(
                    f"{', '.join(dict.fromkeys(changed))} changed while the server ran; required: "
                    "one index for all workers; start the server again"
                )
            corpus = Corpus.open(self.corpus, self.folder)
            index = open_index(corpus, self.folder, self.backend, self.dense)
            return create_app(corpus, index, self.name, self.limits, self.hosts, self.crew)
        except InputError as error:
            _give_up(str(error))
        except Exception:
            _LOG.exception("a worker could not open the index")
            _give_up("a worker could not open the index; the reason is above")


def files_of(corpus: Path, folder: Path) -> Files:
    """What tells whether ``corpus`` or a file of its index has changed."""
    found = [corpus, *(path for path in folder.rglob("*") if path.is_file())]
    stats = [(path, path.stat()) for path in found if path.exists()]
    return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in stats}


def serve(
    application: Application,
    listeners: Sequence[socket],
    drain: int,
    on_ready: Callable[[], None],
) -> None:
    """Answers until SIGINT or SIGTERM; what is under way then is finished.

    Args:
        application: what every worker serves.
        listeners: a bound socket for each process; clients are refused until the first listens.
        drain: seconds that answers under way may take when the server ends.
        on_ready: is called once, when all workers have opened the index.

    Raises:
        InputError: a worker could not open the index.
    """
    with _counting() as folder:
        crew = Crew(folder, len(listeners))
        supervisor = _Supervisor(replace(application, crew=crew), listeners, drain, on_ready, crew)
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise InputError("a worker could not start, so the server ended; the reason is above")


class _Supervisor(Multiprocess):
    """uvicorn's, which says what it does, closes its socket and waits no longer than it may."""

    def __init__(
        self,
        application: Application,
        listeners: Sequence[socket],
        drain: int,
        on_ready: Callable[[], None],
        crew: Crew,
    ) -> None:
        config = server_config(application, application.limits, drain)
        config.workers = len(listeners)
        super().__init__(config, [*listeners])
        self._drain, self._on_ready, self._crew = drain, on_ready, crew
        self._announced = False

    def init_processes(self) -> None:
        """Starts a worker on each socket."""
        self.processes += [Process(self.config, [listener]) for listener in self.sockets]
        for process in self.processes:
            process.start()

    def keep_subprocess_alive(self) -> None:
        """Replaces workers that have died, and says so; ends if one could not start."""
        if self.should_exit.is_set():
            return
        for place, old in enumerate(self.processes):
            if old.process.is_alive():
                continue
            if old.exitcode == STARTUP_FAILURE:
                self.should_exit.set()
                return
            folder = str(self._crew.folder)
            mark_process_dead(old.pid, folder)  # type: ignore[no-untyped-call]
            self.processes[place] = new = Process(self.config, [self.sockets[place]])
            new.start()
            told = (old.pid, _how(old.exitcode), new.pid)
            _LOG.warning("worker %s ended (%s); worker %s takes its place", *told)
        if not self._announced and self._crew.is_complete():
            self._announced = True
            self._on_ready()

    def handle_hup(self) -> None:
        """Ends the server, as it does without workers: its terminal was closed."""
        self.should_exit.set()

    def terminate_all(self) -> None:
        """Lets the workers finish; the system refuses new connections once they have closed."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()

    def join_all(self) -> None:
        """Waits for the workers, and kills those that hang."""
        end = time.monotonic() + self._drain + _LATE
        for process in self.processes:
            process.process.join(max(0.0, end - time.monotonic()))
            if process.exitcode is None:
                _LOG.error("worker %s did not end and is killed", process.pid)
                process.kill()
                process.join()


def _end_with_parent() -> None:
    """Lets no worker hold the port when the first process was killed."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _give_up(why: str) -> NoReturn:
    print(f"error: {why}", file=sys.stderr, flush=True)
    sys.exit(STARTUP_FAILURE)


def _how(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return signal.Signals(-exitcode).name
    return f"exit code {exitcode}"


@contextmanager
def _counting() -> Iterator[Path]:
    """The folder in which the workers count."""
    with shared_folder() as folder:
        before = os.environ.get(SHARED)
        os.environ[SHARED] = str(folder)  # read by prometheus_client where it is imported anew
        try:
            yield folder
        finally:
            if before is None:
                del os.environ[SHARED]
            else:
                os.environ[SHARED] = before
