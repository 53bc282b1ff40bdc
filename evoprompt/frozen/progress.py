"""Shows an optimization while it runs: a bar in a terminal, and what a person should know."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from evoprompt.errors import EvopromptWarning
from evoprompt.eventlog import EventLog
from evoprompt.events import Event, Notice
from evoprompt.frozen.runner import Meter


@contextmanager
def shown(log: EventLog, wanted: bool | None, meter: Meter) -> Iterator[None]:
    """Shows the events of ``log`` while inside; notices are warnings, too.

    Args:
        log: of the optimization.
        wanted: whether to show a bar; None for where standard error is a terminal.
        meter: counts the rollouts.
    """
    log.subscribe(_warn)
    console = Console(stderr=True)
    if not (console.is_terminal if wanted is None else wanted):
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

        log.subscribe(follow)
        yield


def _warn(event: Event) -> None:
    if isinstance(event, Notice):
        warnings.warn(event.message, EvopromptWarning, stacklevel=2)
