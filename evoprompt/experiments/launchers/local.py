"""Trials on this machine, each in a process of its own.

A pipe joins each process with this one: events and the end come in, and anything sent out (or this
process dying) tells it to stop after its step. A process that is killed costs only its own trial.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection

from evoprompt.events import Event
from evoprompt.experiments.launchers.base import Done, Launcher, Lost, Message, Work
from evoprompt.experiments.trial import End, attempt

_SPAWN = get_context("spawn")  # forking a process that has loaded torch is not safe


class LocalLauncher(Launcher):
    """Processes of this machine; one that is killed is not started again."""

    retries = 0
    elsewhere = False
    most: int | None = 1

    def open(self) -> Sequence[str]:
        """Nothing to know: this machine is there."""
        return ()

    def start(self, work: Work) -> LocalJob:
        """A new process."""
        # Each would otherwise start as many threads as there are cores.
        threads = max(1, (os.cpu_count() or 1) // work.at_once)
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        return LocalJob(work)

    def close(self) -> None:
        """Nothing is left."""


class LocalJob:
    """A trial in a process of this machine."""

    def __init__(self, work: Work) -> None:
        self._pipe: Connection[None, Event | End | None]
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_carry_out, args=(theirs, work), name=str(work.trial))
        self._process.start()
        theirs.close()  # so that its death is seen as the end of the pipe

    def poll(self) -> Sequence[Message]:
        """What has come through the pipe."""
        found: list[Message] = []
        while self._pipe.poll():
            try:
                message = self._pipe.recv()
            except EOFError:
                self._process.join()
                return [*found, Lost(f"its process ended with exit code {self._process.exitcode}")]
            if not isinstance(message, Event):
                self._process.join()
                return [*found, Done(message)]
            found.append(message)
        return found

    def stop(self) -> None:
        """Tells it through the pipe."""
        with suppress(OSError):  # it has ended already
            self._pipe.send(None)

    def kill(self) -> None:
        """Kills the process."""
        self._process.kill()
        self._process.join()


def _carry_out(pipe: Connection[Event | End | None, None], work: Work) -> None:
    """What runs in the trial's process; its output goes to a file beside its events."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they reach all; the parent says what to do
    log = work.directory.trial(work.trial).output
    log.parent.mkdir(parents=True, exist_ok=True)

    one_at_a_time = threading.Lock()  # what is only shown may come from another thread

    def listener(event: Event) -> None:
        with one_at_a_time, suppress(OSError):  # the parent died; poll says so before the next step
            pipe.send(event)

    with log.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        end = attempt(work.directory, work.trial, work.resume, listener, pipe.poll)
    with suppress(OSError):
        pipe.send(end)
