"""The role of a launcher: where the trials of a run are carried out."""

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
    """A job has ended by itself.

    Attributes:
        end: of its trial; None when it was stopped, to be resumed.
    """

    end: End | None


@dataclass(frozen=True, slots=True)
class Lost:
    """The process or the machine of a job is gone; its trial can be resumed elsewhere."""

    reason: str


Message = Event | Done | Lost
"""What a job has to say; nothing follows after ``Done`` or ``Lost``."""


class Job(ABC):
    """A trial in another process, seen through its folder and what is known of the process.

    Earlier submissions of the same trial are taken back: should their processes be alive, they save
    and end after their step, or do not begin.

    Args:
        directory: the run, at an absolute path.
        trial: which of its trials.
        home: see :class:`Errand`.

    Attributes:
        errand: to be carried out in that process.
    """

    def __init__(self, directory: RunDirectory, trial: TrialId, home: Path | None = None) -> None:
        root = directory.trial(trial).launched
        shutil.rmtree(root, ignore_errors=True)
        self._folder = root / uuid4().hex[:8]
        self._folder.mkdir(parents=True)
        self._events, self._read = self._folder / "events.jsonl", 0
        self.errand = Errand(directory, trial, self._folder, home)

    def poll(self) -> Sequence[Message]:
        """What has happened since the last call, at once, and nothing if that is nothing."""
        end = self._end()
        said = self._news()
        if end is None:
            return said
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # others are in use
            self._folder.parent.rmdir()
        return [*said, end]

    def stop(self) -> None:
        """Asks it to save and end after its step; one that has not begun need not begin."""
        (self._folder / "stop").touch()
        if not self._events.exists():
            self._cancel(force=False)

    def kill(self) -> None:
        """Ends it at once; nothing if it has ended."""
        self._cancel(force=True)

    def _news(self) -> Sequence[Event]:
        """What the trial has said since the last call."""
        try:
            with self._events.open("rb") as file:
                file.seek(self._read)
                lines = file.read().splitlines(keepends=True)
        except OSError:
            return ()
        found: list[Event] = []
        for line in lines:
            if not line.endswith(b"\n"):
                break  # the rest is being written
            self._read += len(line)
            with suppress(ValueError):
                found.append(event_of(line))
        return found

    @abstractmethod
    def _end(self) -> Done | Lost | None:
        """How it ended; None as long as it waits or runs."""

    @abstractmethod
    def _cancel(self, force: bool) -> None:
        """Takes it back; with ``force`` also one that runs."""


class Launcher(Component, ABC):
    """Carries out trials, each in a process of its own.

    Attributes:
        retries: how often a trial is submitted again after it was lost.
        elsewhere: whether trials run on other machines, which need what this one may lack.
        most: trials at a time by default; None for all.
    """

    role = "launcher"
    retries: int
    elsewhere: bool
    most: int | None

    @abstractmethod
    def open(self) -> Sequence[str]:
        """Connects to the cluster, and returns what a person should know of it beforehand.

        Raises:
            InputError: there is none.
        """

    def reach(self) -> Need:
        """Whether the cluster can be reached, and what it says."""
        try:
            notices = self.open()
        except InputError as error:
            return need_of("launcher", error)
        finally:
            self.close()
        return Need("launcher", "; ".join(["it can be reached", *notices]))

    @abstractmethod
    def start(self, directory: RunDirectory, trial: TrialId, at_once: int) -> Job:
        """Submits a trial, to be continued from its newest checkpoint if it has one.

        Args:
            directory: the run, at an absolute path.
            trial: which of its trials.
            at_once: trials that may run at the same time, for those that share a machine's cores.

        Raises:
            InputError: it cannot be submitted.
        """

    def close(self) -> None:
        """Lets go of the cluster, when no job is left."""


def require_extra(module: str, extra: str) -> None:
    """Makes sure that ``module``, which ``extra`` installs, is here.

    Raises:
        InputError: it is not.
    """
    if find_spec(module) is None:
        raise InputError(
            f"the launcher {extra} needs {module}, which is not installed; required: the extra "
            f'{extra}; pip install "evoprompt[{extra}]", on the machines of the trials, too'
        )
