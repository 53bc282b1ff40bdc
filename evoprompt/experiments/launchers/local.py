"""Trials on this machine, each in a process of its own; one that is killed costs only itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.launchers.base import Done, Job, Launcher, Lost
from evoprompt.experiments.launchers.node import Errand
from evoprompt.experiments.trial import End

_SPAWN = get_context("spawn")  # forking a process that has loaded torch is not safe


class LocalLauncher(Launcher):
    """Processes of this machine; one that is killed is not started again."""

    retries = 0
    elsewhere = False
    most: int | None = 1

    def open(self) -> Sequence[str]:
        """Nothing to know: this machine is there."""
        return ()

    def start(self, directory: RunDirectory, trial: TrialId, at_once: int) -> LocalJob:
        """A new process."""
        # Each would otherwise start as many threads as there are cores.
        threads = max(1, (os.cpu_count() or 1) // at_once)
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        return LocalJob(directory, trial)


class LocalJob(Job):
    """A trial in a process of this machine, whose end comes through a pipe."""

    def __init__(self, directory: RunDirectory, trial: TrialId) -> None:
        super().__init__(directory, trial)
        self._pipe: Connection[None, End | None]
        self._pipe, theirs = _SPAWN.Pipe()
        given = (theirs, self.errand)
        self._process = _SPAWN.Process(target=_carry_out, args=given, name=str(trial))
        self._process.start()
        theirs.close()  # so that its death is seen as the end of the pipe

    def _end(self) -> Done | Lost | None:
        if not self._pipe.poll():
            return None
        try:
            end: Done | Lost = Done(self._pipe.recv())
            self._process.join()
        except EOFError:
            self._process.join()
            end = Lost(f"its process ended with exit code {self._process.exitcode}")
        return end

    def _cancel(self, force: bool) -> None:
        if force:
            self._process.kill()
            self._process.join()


def _carry_out(pipe: Connection[End | None, None], errand: Errand) -> None:
    """What runs in the trial's process; its output goes to a file beside its events."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they reach all; the parent says what to do
    end = errand.carry_out()
    with suppress(OSError):  # the parent has died
        pipe.send(end)
