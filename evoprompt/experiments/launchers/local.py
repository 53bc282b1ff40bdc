"""Trials on this machine, each in a process of its own; a kill affects only one trial."""

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
    """Launcher of processes on this machine; a process that is killed is not started again."""

    retries = 0
    elsewhere = False
    max_parallel: int | None = 1

    def open(self) -> Sequence[str]:
        """Return no notices: this machine is available."""
        return ()

    def start(self, directory: RunDirectory, trial: TrialId, at_once: int) -> LocalJob:
        """Start a new process."""
        # Otherwise each process would start as many threads as there are cores.
        threads = max(1, (os.cpu_count() or 1) // at_once)
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        return LocalJob(directory, trial)


class LocalJob(Job):
    """Trial in a process of this machine; a pipe reports its end."""

    def __init__(self, directory: RunDirectory, trial: TrialId) -> None:
        super().__init__(directory, trial)
        self._pipe: Connection[None, End | None]
        self._pipe, theirs = _SPAWN.Pipe()
        arguments = (theirs, self.errand)
        self._process = _SPAWN.Process(target=_carry_out, args=arguments, name=str(trial))
        self._process.start()
        theirs.close()  # so that the end of the process closes the pipe

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
    """Carry out ``errand`` in the trial's process; its output goes to a file next to its events."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they reach all processes; the parent decides
    end = errand.carry_out()
    with suppress(OSError):  # the parent has ended
        pipe.send(end)
