"""Tells of a run while it runs, a line for what matters; ``evoprompt watch`` shows it live."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from evoprompt.evaluation import Headline
from evoprompt.events import (
    Evaluated,
    Event,
    Evolved,
    Notice,
    Proposed,
    Pruned,
    Told,
    Verified,
)
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.runner import Observer
from evoprompt.experiments.summary import SeedSummary
from evoprompt.text import printable
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
        self._running: dict[TrialId, Progress] = {}

    def started(self, trial: TrialId) -> None:
        """Tells that a trial begins."""
        self._running[trial] = Progress(self._directory.config.budget_of(trial.arm))
        self._say(trial, "begins", "bold")

    def happened(self, trial: TrialId, event: Event) -> None:
        """Tells what happened in a trial, if it matters."""
        if line := self._running[trial].update(event):
            self._say(trial, line, STYLES.get(line.split()[0], "dim"), event.step)

    def finished(self, trial: TrialId, result: SeedSummary) -> None:
        """Tells the result of a trial, from now or from before."""
        fresh = self._running.pop(trial, None)
        done = f"done in {result.train_seconds:.0f} s" if fresh else "was done before"
        reached = f"{result.headline.label} {result.test.value:.3f}"
        failures = result.test.failures
        failed = f"; {failures}" if failures.failed else ""
        self._say(trial, f"{done}: test {reached}{failed}", "bold red" if failed else "bold green")

    def failed(self, trial: TrialId, reason: str) -> None:
        """Tells that a trial ended with an error."""
        self._running.pop(trial, None)
        self._say(trial, f"failed: {reason}", "bold red")

    def lost(self, trial: TrialId, reason: str) -> None:
        """Tells that process or machine of a trial is gone."""
        self._running.pop(trial, None)
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


class Progress:
    """What is known of a trial while it runs, kept up to date by its events.

    Args:
        budget: rollouts after which it ends.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._reward = "none"
        self._generations: Counter[bool] = Counter()  # by whether they failed
        self._texts: dict[str, str] = {}

    def update(self, event: Event) -> str:
        """Takes note of ``event`` and returns a line for people; empty when it is routine."""
        match event:
            case Told() if event.reward is not None:
                self._reward = f"{event.reward:.3f}"
            case Proposed() if event.rule:
                return f"refused a proposal of {event.proposer} ({event.rule}: {event.reason})"
            case Proposed():
                self._texts[event.candidate] = " ".join(legible(event.components).split())
            case Verified(parent=False, admitted=True):
                text = self._texts.get(event.candidate, "")
                return f"admitted {event.candidate} at {_mean(event)}: {text}"
            case Verified(parent=False):
                return f"turned {event.candidate} away at {_mean(event)} ({event.reason})"
            case Evolved():
                self._generations[bool(event.failure)] += 1
                if event.failure:
                    count = f"{self._generations[True]} of {self._generations.total()}"
                    return f"failed generation, {count} so far: {event.failure}"
                return (
                    f"evolved: {len(event.admitted)} admitted in {event.rounds} rounds with "
                    f"{event.rollouts} rollouts, {len(event.population)} alive"
                )
            case Pruned():
                return f"pruned {', '.join(event.dropped)}; {len(event.kept)} alive"
            case Evaluated(headline=Headline() as headline):
                value = event.metrics[headline.name]
                line = f"{event.split} {headline.label} {value:.3f} with {event.candidate}"
                if event.split != "validation":
                    return line
                return f"{line}; rollouts {event.rollouts}/{self._budget}, reward {self._reward}"
            case Notice():
                return event.message
        return ""


def _mean(event: Verified) -> str:
    if event.mean is None:
        return "no reward"
    return f"{event.mean:.2f}" + (f"±{event.stderr:.2f}" if event.stderr is not None else "")
