"""The role of a launcher: where the trials of a run are carried out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from evoprompt.errors import InputError
from evoprompt.events import Event
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.trial import End
from evoprompt.roles import Component


@dataclass(frozen=True, slots=True)
class Work:
    """A trial to carry out, from its newest checkpoint if it has one.

    Attributes:
        directory: the run, at an absolute path.
        trial: which of its trials.
        at_once: trials that may run at the same time, for those that share a machine's cores.
    """

    directory: RunDirectory
    trial: TrialId
    at_once: int


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
    """A trial that was submitted."""

    @abstractmethod
    def poll(self) -> Sequence[Message]:
        """What has happened since the last call, at once, and nothing if that is nothing."""

    @abstractmethod
    def stop(self) -> None:
        """Asks it to save and end after its step; one that has not begun need not begin."""

    @abstractmethod
    def kill(self) -> None:
        """Ends it at once; nothing if it has ended."""


class Launcher(Component, ABC):
    """Carries out trials, each in a process of its own.

    Attributes:
        retries: how often a trial is submitted again after it was lost.
        elsewhere: whether trials run on other machines, which need what this one may lack.
        most: trials at a time where nobody says; None for all.
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

    @abstractmethod
    def start(self, work: Work) -> Job:
        """Submits a trial.

        Raises:
            InputError: it cannot be submitted.
        """

    def close(self) -> None:
        """Lets go of the cluster, when no job is left."""


def require_extra(module: str, extra: str) -> None:
    """Returns if ``module``, which ``extra`` installs, is here.

    Raises:
        InputError: it is not.
    """
    if find_spec(module) is None:
        raise InputError(
            f"the launcher {extra} needs {module}, which is not installed; required: the extra "
            f'{extra}; pip install "evoprompt[{extra}]", on the machines of the trials, too'
        )
