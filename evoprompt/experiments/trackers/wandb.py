"""The table of candidates in Weights & Biases."""

from __future__ import annotations

from collections.abc import Sequence

import wandb

from evoprompt.experiments.trackers.table import NAME, Row


class WeightsAndBiases:
    """Sends tables to the run that is open in this process.

    Args:
        clock: metric that holds the trainer's step, where the trainer logs by that; None where it
            hands its step to the run.
    """

    def __init__(self, clock: str | None = None) -> None:
        self._clock = clock

    def show(self, rows: Sequence[Row], step: int) -> None:
        """Adds a table to what the trainer logs next; nothing without a run."""
        if wandb.run is None:
            return
        columns: list[str | int] = [*Row.columns()]
        table = wandb.Table(columns=columns, data=[row.cells() for row in rows])
        if self._clock is None:
            wandb.run.log({NAME: table}, step=step)
        else:
            wandb.run.log({NAME: table, self._clock: step}, commit=False)
