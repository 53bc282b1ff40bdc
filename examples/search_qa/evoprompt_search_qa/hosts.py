"""The hosts that this package brings."""

from __future__ import annotations

from dataclasses import dataclass

from evoprompt.agents.tasks import Host, Plan, Task, Trainee, Trial
from evoprompt.errors import InputError
from evoprompt.roles import BuildContext
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.training.settings import FitSettings, OfflineSettings, RejectionSettings


@dataclass(frozen=True)
class OfflineHost(Host):
    """A host without reinforcement learning; see ``training/``."""

    settings: OfflineSettings

    @classmethod
    def build(cls, settings: OfflineSettings, context: BuildContext) -> OfflineHost:
        """Makes the host with these settings."""
        return cls(settings)

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
                f"host {type(self).__name__.lower()!r} cannot train a {type(task).__name__}; "
                "required: the task 'search-qa'; choose it, or the host 'trl'"
            )
        from evoprompt_search_qa.training.hosts import trainee

        return trainee(self.settings, task, trial)


class Prompted(OfflineHost):
    """Tests an inference method of search-qa as it is, untrained."""

    Settings = OfflineSettings


class Sft(OfflineHost):
    """Supervised training on questions and answers of search-qa, without a tool."""

    Settings = FitSettings


class Rejection(OfflineHost):
    """Supervised training on the own rollouts of search-qa that were right."""

    Settings = RejectionSettings
