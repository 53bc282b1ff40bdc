"""Shows a run while it runs: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evoprompt.events import Event
from evoprompt.experiments.cli.progress import Progress
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.runner import Observer
from evoprompt.experiments.summary import SeedSummary
from evoprompt.text import printable

STYLES = {
    "evolved": "green",
    "admitted": "green",
    "pruned": "yellow",
    "validation": "bold",
    "failed": "bold red",
}
"""How a line looks, by its first word."""


class Display(Observer):
    """Watches a run and shows it on ``console``.

    Args:
        directory: the run, whose configuration may grow.
        console: where to show it; live if it is a terminal.
    """

    def __init__(self, directory: RunDirectory, console: Console) -> None:
        self._directory = directory
        self._console = console
        self._running: dict[TrialId, Progress] = {}
        self._finished = 0
        self._live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Shows the run while inside."""
        if not self._console.is_terminal:
            yield
            return
        with Live(
            get_renderable=self._picture,
            console=self._console,
            refresh_per_second=4,
            transient=True,
        ) as self._live:
            yield

    def started(self, trial: TrialId) -> None:
        """A trial begins."""
        self._running[trial] = Progress(self._directory.config.budget_of(trial.arm))
        self._say(trial, "begins", "bold")

    def happened(self, trial: TrialId, event: Event) -> None:
        """Something happened in a trial."""
        progress = self._running[trial]
        line = progress.update(event)
        if not line:
            return
        if not self._console.is_terminal and line.startswith("validation"):
            line = f"{line}; {_counts(progress)}"
        self._say(trial, line, STYLES.get(line.split()[0], "dim"), progress.step)

    def finished(self, trial: TrialId, result: SeedSummary) -> None:
        """A trial has its result, now or from before."""
        self._finished += 1
        fresh = self._running.pop(trial, None)
        done = f"done in {result.train_seconds:.0f} s" if fresh else "was done before"
        reached = f"{result.headline.label} {result.test.value:.3f}"
        failures = result.test.failures
        failed = f"; {failures}" if failures.failed else ""
        self._say(trial, f"{done}: test {reached}{failed}", "bold red" if failed else "bold green")

    def failed(self, trial: TrialId, reason: str) -> None:
        """A trial ended with an error; the others go on."""
        self._running.pop(trial, None)
        line = Text.assemble((f"{trial} ", "cyan"), (f"failed: {printable(reason)}", "bold red"))
        self._console.print(line, soft_wrap=True)  # to its end, where the remedy is

    def lost(self, trial: TrialId, reason: str) -> None:
        """The process or machine of a trial is gone; it continues from its newest checkpoint."""
        self._running.pop(trial, None)
        self._say(trial, f"lost: {reason}; it is submitted again", "bold red")

    def stopping(self) -> None:
        """The first Ctrl-C came: the run ends after this step."""
        self._console.print(
            "stopping: saving after this step; press Ctrl-C again to stop at once", style="yellow"
        )

    def _say(self, trial: TrialId, line: str, style: str, step: int | None = None) -> None:
        when = "" if step is None else f" step {step}"
        text = Text.assemble((f"{trial}{when} ", "cyan"), (printable(line), style))
        if self._console.is_terminal:
            text.truncate(self._console.width, overflow="ellipsis")
        self._console.print(text, soft_wrap=True)

    def _picture(self) -> RenderableType:
        trials = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
        labels = [p.headline.label for p in self._running.values() if p.headline is not None]
        headline = labels[0] if labels else "evaluation"
        for name in ("trial", "step", "reward", headline, "alive", "generations"):
            trials.add_column(name, justify="left" if name == "trial" else "right", no_wrap=True)
        trials.add_column("rollouts", ratio=1)
        trials.add_column("left", justify="right", no_wrap=True)
        for trial, progress in self._running.items():
            trials.add_row(
                str(trial),
                str(progress.step),
                _number(progress.reward),
                _number(progress.value),
                str(max(len(progress.weights), 1)),
                _generations(progress),
                ProgressBar(total=progress.budget, completed=progress.rollouts),
                _clock(progress.seconds_left),
            )
        total = len(self._directory.trials())
        parts: list[RenderableType] = [
            Text(f"{self._finished} of {total} trials done", "dim"),
            trials,
        ]
        evolving = [p for p in self._running.values() if len(p.weights) > 1]
        if evolving:
            parts.append(_population(evolving[-1]))
        return Group(*parts)


def _counts(progress: Progress) -> str:
    reward = "none" if progress.reward is None else f"{progress.reward:.3f}"
    return (
        f"rollouts {progress.rollouts}/{progress.budget}, reward {reward}, "
        f"population {max(len(progress.weights), 1)}"
    )


def _generations(progress: Progress) -> Text:
    """How many there were, and how many of them failed."""
    failed = f", {progress.failed} failed" if progress.failed else ""
    return Text(f"{progress.generations}{failed}", "bold red" if failed else "")


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def _population(progress: Progress) -> Table:
    """The living candidates, the most used first."""
    table = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
    table.add_column("candidate", no_wrap=True)
    table.add_column("chance", justify="right", no_wrap=True)
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("what is new in it", no_wrap=True, overflow="ellipsis", ratio=1)
    ranked = sorted(
        progress.weights, key=lambda c: progress.probabilities.get(c, 0.0), reverse=True
    )
    for candidate in ranked[:8]:
        table.add_row(
            candidate,
            _number(progress.probabilities.get(candidate)),
            _number(progress.weights[candidate]),
            Text(printable(progress.news(candidate))),
        )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
