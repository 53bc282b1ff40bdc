"""Shows an optimization while it runs: a bar in a terminal, and what a person should know."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from evoprompt.errors import EvopromptWarning
from evoprompt.eventlog import EventLog
from evoprompt.events import Event, Notice, Proposed, Verified
from evoprompt.optimizer.outcome import Ended
from evoprompt.optimizer.result import OptimizationResult
from evoprompt.optimizer.runner import Meter
from evoprompt.text import printable
from evoprompt.types import legible


@contextmanager
def shown(log: EventLog, wanted: bool | None, meter: Meter) -> Iterator[None]:
    """Shows the events of ``log`` while inside; notices are warnings, too.

    Args:
        log: of the optimization.
        wanted: whether to show a bar; None for where standard error is a terminal.
        meter: counts the rollouts.
    """
    with _told(log, _warn), _seen(log, wanted, meter):
        yield


@contextmanager
def _told(log: EventLog, listener: Callable[[Event], None]) -> Iterator[None]:
    """Calls ``listener`` with every event while inside; a result is saved without it."""
    log.subscribe(listener)
    try:
        yield
    finally:
        log.unsubscribe(listener)


@contextmanager
def _seen(log: EventLog, wanted: bool | None, meter: Meter) -> Iterator[None]:
    console = Console(stderr=True)
    if not (console.is_terminal if wanted is None else wanted):
        if wanted is False:
            yield
            return
        with _told(log, _Lines(meter)):  # a job's log: a line for what is worth one
            yield
        return
    columns = (
        *(TextColumn("rollouts"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
        TextColumn("iteration {task.fields[iteration]}, validation {task.fields[value]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=meter.limit, iteration=0, value="...")

        def follow(event: Event) -> None:
            progress.update(task, completed=meter.spent, iteration=event.step)
            metrics = getattr(event, "metrics", None)
            if metrics:
                progress.update(task, value=f"{metrics['reward']:.3f}")

        with _told(log, follow):
            yield


def tell_end(result: OptimizationResult) -> None:
    """Writes how it went to standard error."""
    print(*result.facts(), sep="\n", file=sys.stderr, flush=True)


class _Lines:
    """Writes a line to standard error for each text that was accepted."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._texts: dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, Proposed) and event.candidate:
            self._texts[event.candidate] = legible(event.components)
        elif isinstance(event, Verified):
            text = self._texts.pop(event.candidate, "")
            if event.admitted:
                where = (
                    f"iteration {event.step}, {self._meter.spent} of {self._meter.limit} rollouts"
                )
                mean = "" if event.mean is None else f" with {event.mean:.3f}"
                said = printable(" ".join(text.split()))
                line = f"{where}: {event.candidate} was accepted{mean}: {said:.200}"
                print(line, file=sys.stderr, flush=True)


def _warn(event: Event) -> None:
    if isinstance(event, Notice) and not isinstance(event, Ended):
        warnings.warn(event.message, EvopromptWarning, stacklevel=2)
