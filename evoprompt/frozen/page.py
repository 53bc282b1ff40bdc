"""The page and the picture of an optimization."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evoprompt.frozen.result import OptimizationResult
from evoprompt.report import draw
from evoprompt.report.history import read_histories
from evoprompt.report.source import read_source

_ARM = "optimize"


def write_pictures(result: OptimizationResult, root: Path) -> list[Path]:
    """Writes ``report.html`` and ``report.png`` into the folder with the files of ``result``."""
    runs = [result, *(run for run in result.runs if run.seed != result.seed)]
    histories = read_histories(
        {**event, "arm": _ARM, "seed": run.seed} for run in runs for event in run.log
    )
    source = replace(
        read_source(root),
        title="Optimization of an instruction",
        histories=tuple(histories),
        arms=(_ARM,),
        problems=(),
    )
    return draw(source, root)
