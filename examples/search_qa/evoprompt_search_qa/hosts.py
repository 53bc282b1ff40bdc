"""The hosts that this package brings."""

from __future__ import annotations

from dataclasses import dataclass

from evoprompt.agents.tasks import Plan, Task, Trainee, Trial
from evoprompt.errors import InputError
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.training.settings import OfflineSettings


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
