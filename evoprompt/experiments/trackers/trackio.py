"""The table of candidates in trackio."""

from __future__ import annotations

from collections.abc import Sequence

import trackio
from trackio import context_vars

from evoprompt.experiments.trackers.table import NAME, Row


class Trackio:
    """Sends tables to the run that is open in this process.

    Args:
        clock: metric that holds the trainer's step, where the trainer logs by that; None where it
            hands its step to the run.
    """

    def __init__(self, clock: str | None = None) -> None:
        self._clock = clock

    def show(self, rows: Sequence[Row], step: int) -> None:
        """Logs a table; nothing without a run."""
        if context_vars.current_run.get() is None:
            return
        table = trackio.Table(columns=Row.columns(), data=[row.cells() for row in rows])
        if self._clock is None:
            trackio.log({NAME: table}, step=step)
        else:
            trackio.log({NAME: table, self._clock: step})
