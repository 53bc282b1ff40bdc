"""The hosts that this package brings, and how those of other packages train its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, JsonValue

from evoprompt.errors import InputError
from evoprompt.tasks import Plan, Task, Trainee, Trial
from evoprompt_search_qa.open.task import OpenQa
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.training.settings import OfflineSettings


class AnySettings(BaseModel):
    """Whatever the trainee of a task takes."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class OwnHost:
    """``trl`` with the trainee of the task's own package."""

    name: str
    given: Mapping[str, JsonValue]

    def plan(self, task: Task, trial: Trial) -> Plan | None:
        """What ``trial`` would do and need."""
        if isinstance(task, OpenQa):
            from evoprompt_search_qa.open.plan import plan

            return plan(task, self.given, trial)
        if isinstance(task, SearchQa):
            from evoprompt_search_qa.tiny.plan import plan as plan_tiny

            return plan_tiny(task, self.given, trial)
        return None

    def prepare(self, task: Task, trial: Trial) -> Trainee:
        """The policy in the trainer."""
        if isinstance(task, OpenQa):
            from evoprompt_search_qa.open.trl import OpenTrlTrainee

            return OpenTrlTrainee(task, trial, self.given)
        if isinstance(task, SearchQa):
            from evoprompt_search_qa.tiny.trl import TrlTrainee

            return TrlTrainee(task, trial, self.given)
        raise InputError(f"host {self.name!r} cannot train {type(task).__name__} yet")


@dataclass(frozen=True, slots=True)
class OfflineHost:
    """A host without reinforcement learning; see ``training/``."""

    name: str
    settings: OfflineSettings

    def plan(self, task: Task, trial: Trial) -> Plan | None:
        """Nothing is known beforehand: the policy is small enough to be loaded."""
        return None

    def prepare(self, task: Task, trial: Trial) -> Trainee:
        """The tiny policy, ready to be trained and tested by a method.

        Raises:
            InputError: the task is another than ``search-qa``.
        """
        if not isinstance(task, SearchQa):
            raise InputError(
                f"host {self.name!r} cannot train a {type(task).__name__}; required: the task "
                "'search-qa'; choose it, or the host 'trl'"
            )
        from evoprompt_search_qa.training.hosts import trainee

        return trainee(self.settings, task, trial)
