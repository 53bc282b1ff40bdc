"""The table of candidates in MLflow: an artifact for each time it has changed."""

from __future__ import annotations

from collections.abc import Sequence

import mlflow

from evoprompt.experiments.trackers.table import NAME, Row


class MLflow:
    """Sends tables to the run that is active in this process."""

    def show(self, rows: Sequence[Row], step: int) -> None:
        """Logs a table; nothing without a run."""
        if mlflow.active_run() is None:  # it would begin one
            return
        cells = zip(*(row.cells() for row in rows), strict=True)
        table = {name: list(values) for name, values in zip(Row.columns(), cells, strict=True)}
        mlflow.log_table(table, artifact_file=f"{NAME}-{step:08d}.json")
