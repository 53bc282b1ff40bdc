"""What is shown while an evaluation is under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evoprompt_search_qa.evaluation import EXACT_MATCH
from evoprompt_search_qa.harness.journal import Entry


class Shown:
    """The progress of an evaluation, with the exact match of what is being asked.

    Args:
        total: questions to ask.
        console: is drawn on.

    Attributes:
        trouble: why the last unscored question is unscored; empty if none is.
    """

    def __init__(self, total: int, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console)
        self._bar = self._progress.add_task("asking", total=total)
        self.trouble = ""
        self._now = ("", "")
        self._right: list[float] = []
        self._unscored = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def add(self, method: str, data_set: str, entries: Sequence[Entry]) -> None:
        """Advances by ``entries``."""
        if self._now != (method, data_set):
            self._now, self._right, self._unscored = (method, data_set), [], 0
        self._right += [entry.metrics[EXACT_MATCH] for entry in entries if not entry.error]
        errors = [entry.error for entry in entries if entry.error]
        self._unscored += len(errors)
        self.trouble = errors[-1] if errors else self.trouble
        mean = f"{100 * sum(self._right) / len(self._right):.1f}" if self._right else "-"
        unscored = f", {self._unscored} unscored" if self._unscored else ""
        described = f"{method} on {data_set}: {mean}{unscored}"
        self._progress.update(self._bar, advance=len(entries), description=described)
