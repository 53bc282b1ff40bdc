"""Role of a launcher, which runs the trials of a run."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

from evoprompt.agents.tasks import Need
from evoprompt.components import Component
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.eventfile import event_of
from evoprompt.experiments.launchers.node import Errand
from evoprompt.experiments.requirements import need_of
from evoprompt.experiments.trial import End
from evoprompt.log.events import Event
from evoprompt.support.errors import InputError


@dataclass(frozen=True, slots=True)
class Done:
    """End of a job by itself.

    Attributes:
        end: of its trial; None if it was stopped and can be resumed.
    """

    end: End | None


@dataclass(frozen=True, slots=True)
class Lost:
    """Loss of the process or the machine of a job; its trial can be resumed elsewhere."""

    reason: str


Message = Event | Done | Lost
"""Message of a job; no message follows ``Done`` or ``Lost``."""


class Job(ABC):
    """Trial in another process, observed through its folder and the state of the process.

    Earlier submissions of the same trial are withdrawn: if their processes still run, they save and
    end after their step, or do not begin.

    Args:
        directory: the run, at an absolute path.
        trial: one of its trials.
        home: see :class:`Errand`.

    Attributes:
        errand: for that process.
    """

    def __init__(self, directory: RunDirectory, trial: TrialId, home: Path | None = None) -> None:
        root = directory.trial(trial).launched
        shutil.rmtree(root, ignore_errors=True)
        self._folder = root / uuid4().hex[:8]
        self._folder.mkdir(parents=True)
        self._events, self._position = self._folder / "events.jsonl", 0
        self.errand = Errand(directory, trial, self._folder, home)

    def poll(self) -> Sequence[Message]:
        """Return the messages since the last call, without waiting."""
        end = self._end()
        events = self._new_events()
        if end is None:
            return events
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # other submissions are in use
            self._folder.parent.rmdir()
        return [*events, end]

    def stop(self) -> None:
        """Request that it saves and ends after its step; a job that waits need not begin."""
        (self._folder / "stop").touch()
        if not self._events.exists():
            self._cancel(force=False)

    def kill(self) -> None:
        """End it immediately; do nothing if it has ended."""
        self._cancel(force=True)

    def _new_events(self) -> Sequence[Event]:
        """Return the trial's events since the last call."""
        try:
            with self._events.open("rb") as file:
                file.seek(self._position)
                lines = file.read().splitlines(keepends=True)
        except OSError:
            return ()
        events: list[Event] = []
        for line in lines:
            if not line.endswith(b"\n"):
                break  # the line is still being written
            self._position += len(line)
            with suppress(ValueError):
                events.append(event_of(line))
        return events

    @abstractmethod
    def _end(self) -> Done | Lost | None:
        """Return how it ended; None while it waits or runs."""

    @abstractmethod
    def _cancel(self, force: bool) -> None:
        """Withdraw it; with ``force`` also a running job."""


class Launcher(Component, ABC):
    """Launcher of trials, each in a process of its own.

    Attributes:
        retries: number of repeated submissions of a trial that was lost.
        elsewhere: whether trials run on other machines, which have needs of their own.
        max_parallel: most trials at a time by default; None for all.
    """

    role = "launcher"
    retries: int
    elsewhere: bool
    max_parallel: int | None

    @abstractmethod
    def open(self) -> Sequence[str]:
        """Connect to the cluster, and return notices for the user.

        Raises:
            InputError: there is no cluster.
        """

    def reach(self) -> Need:
        """Return whether the cluster can be reached, with its notices, as a need."""
        try:
            notices = self.open()
        except InputError as error:
            return need_of("launcher", error)
        finally:
            self.close()
        return Need("launcher", "; ".join(["it can be reached", *notices]))

    @abstractmethod
    def start(self, directory: RunDirectory, trial: TrialId, at_once: int) -> Job:
        """Submit a trial, to be continued from its newest checkpoint if it has one.

        Args:
            directory: the run, at an absolute path.
            trial: one of its trials.
            at_once: number of trials that may run at the same time, if they share a machine's
                cores.

        Raises:
            InputError: it cannot be submitted.
        """

    def close(self) -> None:
        """Disconnect from the cluster, when no job is left."""


def require_extra(module: str, extra: str) -> None:
    """Check that ``module``, which ``extra`` installs, is installed.

    Raises:
        InputError: it is not installed.
    """
    if find_spec(module) is None:
        raise InputError(
            f"the launcher {extra} needs {module}, which is not installed; required: the extra "
            f'{extra}; pip install -e ".[{extra}]", on the machines of the trials, too'
        )
