"""Who watches a run while it runs."""

from __future__ import annotations

from typing import Protocol

from evoprompt.events import Event
from evoprompt.experiments.directory import TrialId
from evoprompt.experiments.summary import SeedSummary


class Observer(Protocol):
    """Watches a run; every method is called in the process that runs it."""

    def started(self, trial: TrialId) -> None:
        """A trial begins."""
        ...

    def happened(self, trial: TrialId, event: Event) -> None:
        """Something happened in a trial."""
        ...

    def finished(self, trial: TrialId, result: SeedSummary) -> None:
        """A trial has its result, now or from before."""
        ...

    def failed(self, trial: TrialId, reason: str) -> None:
        """A trial ended with an error; the others go on."""
        ...

    def lost(self, trial: TrialId, reason: str) -> None:
        """The process or machine of a trial is gone; it continues from its newest checkpoint."""
        ...

    def given_up(self, trial: TrialId, reason: str) -> None:
        """A trial of a study is ended before its time."""
        ...

    def stopping(self) -> None:
        """The first Ctrl-C came: the run ends after this step."""
        ...
