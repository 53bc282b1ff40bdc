"""Tells of a run while it runs, a line for what matters; ``evoprompt watch`` shows it live."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.runner import Observer
from evoprompt.experiments.summary import SeedSummary
from evoprompt.log.evaluation import MainMetric
from evoprompt.log.events import (
    Evaluated,
    Event,
    Evolved,
    Notice,
    Proposed,
    Pruned,
    Verified,
)
from evoprompt.support.text import printable
from evoprompt.types import legible

STYLES: Mapping[str, str] = {
    "evolved": "green",
    "admitted": "green",
    "pruned": "yellow",
    "validation": "bold",
    "failed": "bold red",
}
"""How a line looks, by its first word."""


class Display(Observer):
    """Watches a run and tells of it on ``console``.

    Args:
        directory: the run.
        console: where to tell it.
    """

    def __init__(self, directory: RunDirectory, console: Console) -> None:
        self._directory = directory
        self._console = console
        self._texts: dict[TrialId, dict[str, str]] = {}

    def started(self, trial: TrialId) -> None:
        """Tells that a trial begins."""
        self._texts[trial] = {}
        self._say(trial, "begins", "bold")

    def happened(self, trial: TrialId, event: Event) -> None:
        """Tells what happened in a trial, if it matters."""
        texts = self._texts[trial]
        if isinstance(event, Proposed) and not event.rule:
            texts[event.candidate] = " ".join(legible(event.components).split())
        if line := line_of(event, texts, self._directory.config.budget_of(trial.arm)):
            self._say(trial, line, STYLES.get(line.split()[0], "dim"), event.step)

    def finished(self, trial: TrialId, result: SeedSummary) -> None:
        """Tells the result of a trial, from now or from before."""
        is_fresh = self._texts.pop(trial, None) is not None
        done = f"done in {result.train_seconds:.0f} s" if is_fresh else "was done before"
        reached = f"{result.main_metric.label} {result.test.value:.3f}"
        failures = result.test.failures
        failed = f"; {failures}" if failures.failed else ""
        self._say(trial, f"{done}: test {reached}{failed}", "bold red" if failed else "bold green")

    def failed(self, trial: TrialId, reason: str) -> None:
        """Tells that a trial ended with an error."""
        self._say(trial, f"failed: {reason}", "bold red")

    def lost(self, trial: TrialId, reason: str) -> None:
        """Tells that process or machine of a trial is gone."""
        self._say(trial, f"lost: {reason}; it is submitted again", "bold red")

    def stopping(self) -> None:
        """Tells that the run ends after this step."""
        self._console.print(
            "stopping: saving after this step; press Ctrl-C again to stop at once", style="yellow"
        )

    def _say(self, trial: TrialId, line: str, style: str, step: int | None = None) -> None:
        when = "" if step is None else f" step {step}"
        text = Text.assemble((f"{trial}{when} ", "cyan"), (printable(line), style))
        self._console.print(text, soft_wrap=True)


def line_of(event: Event, texts: Mapping[str, str], budget: int) -> str:
    """A line for people; empty when it is routine.

    Args:
        event: what happened in a trial.
        texts: of its candidates so far.
        budget: rollouts after which it ends.
    """
    match event:
        case Proposed() if event.rule:
            return f"refused a proposal of {event.proposer} ({event.rule}: {event.reason})"
        case Verified(parent=False, admitted=True):
            return f"admitted {event.candidate} at {_mean(event)}: {texts.get(event.candidate, '')}"
        case Verified(parent=False):
            return f"dropped {event.candidate} at {_mean(event)} ({event.reason})"
        case Evolved() if event.failure:
            return f"failed generation: {event.failure}"
        case Evolved():
            return (
                f"evolved: {len(event.admitted)} admitted, {event.rollouts:,} rollouts of "
                f"verification, {len(event.population)} alive"
            )
        case Pruned():
            return f"pruned {', '.join(event.dropped)}; {len(event.kept)} alive"
        case Evaluated(main_metric=MainMetric() as main_metric):
            value = event.metrics[main_metric.name]
            line = f"{event.split} {main_metric.label} {value:.3f} with {event.candidate}"
            whole = " (steps are whole)" if event.rollouts > budget else ""
            return f"{line}; rollouts {event.rollouts:,} of {budget:,}{whole}"
        case Notice():
            return event.message
    return ""


def _mean(event: Verified) -> str:
    if event.mean is None:
        return "no reward"
    return f"{event.mean:.2f}" + (f"±{event.stderr:.2f}" if event.stderr is not None else "")
