"""Display of a running run, one line per relevant event; ``evoprompt watch`` shows it live."""

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
"""Styles of lines, by their first word."""


class Display(Observer):
    """Observer that prints the progress of a run on ``console``.

    Args:
        directory: the run.
        console: for the output.
    """

    def __init__(self, directory: RunDirectory, console: Console) -> None:
        self._directory = directory
        self._console = console
        self._texts: dict[TrialId, dict[str, str]] = {}

    def started(self, trial: TrialId) -> None:
        """Print that a trial begins."""
        self._texts[trial] = {}
        self._print_line(trial, "begins", "bold")

    def on_event(self, trial: TrialId, event: Event) -> None:
        """Print an event of a trial, if it is relevant."""
        texts = self._texts[trial]
        if isinstance(event, Proposed) and not event.rule:
            texts[event.candidate] = " ".join(legible(event.components).split())
        if line := line_of(event, texts, self._directory.config.budget_of(trial.arm)):
            self._print_line(trial, line, STYLES.get(line.split()[0], "dim"), event.step)

    def finished(self, trial: TrialId, result: SeedSummary) -> None:
        """Print the result of a trial, from now or from before."""
        is_fresh = self._texts.pop(trial, None) is not None
        done = f"done in {result.train_seconds:.0f} s" if is_fresh else "was done before"
        reached = f"{result.main_metric.label} {result.test.value:.3f}"
        failures = result.test.failures
        failed = f"; {failures}" if failures.failed else ""
        self._print_line(
            trial, f"{done}: test {reached}{failed}", "bold red" if failed else "bold green"
        )

    def failed(self, trial: TrialId, reason: str) -> None:
        """Print that a trial ended with an error."""
        self._print_line(trial, f"failed: {reason}", "bold red")

    def lost(self, trial: TrialId, reason: str) -> None:
        """Print that the process or machine of a trial is lost."""
        self._print_line(trial, f"lost: {reason}; it is submitted again", "bold red")

    def stopping(self) -> None:
        """Print that the run ends after this step."""
        self._console.print(
            "stopping: saving after this step; press Ctrl-C again to stop immediately",
            style="yellow",
        )

    def _print_line(self, trial: TrialId, line: str, style: str, step: int | None = None) -> None:
        when = "" if step is None else f" step {step}"
        text = Text.assemble((f"{trial}{when} ", "cyan"), (printable(line), style))
        self._console.print(text, soft_wrap=True)


def line_of(event: Event, texts: Mapping[str, str], budget: int) -> str:
    """Return a line for the user; empty if the event is routine.

    Args:
        event: of a trial.
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
                f"verification, {len(event.population)} active"
            )
        case Pruned():
            return f"pruned {', '.join(event.candidates)}; {len(event.members)} active"
        case Evaluated(main_metric=MainMetric() as main_metric):
            value = event.metrics[main_metric.name]
            line = f"{event.split} {main_metric.label} {value:.3f} with {event.candidate}"
            if share := event.metrics.get("unscored"):
                line += f" over {1 - share:.0%} of the questions; the others have no score"
            whole = " (steps are whole)" if event.rollouts > budget else ""
            return f"{line}; rollouts {event.rollouts:,} of {budget:,}{whole}"
        case Notice():
            return event.message
    return ""


def _mean(event: Verified) -> str:
    if event.mean is None:
        return "no reward"
    return f"{event.mean:.2f}" + (f"±{event.stderr:.2f}" if event.stderr is not None else "")
