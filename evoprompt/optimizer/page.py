"""The page and the picture of an optimization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evoprompt.eventlog import EventLog
from evoprompt.experiments.report import draw
from evoprompt.experiments.report.history import read_histories
from evoprompt.experiments.report.source import read_source

_ARM = "optimize"


def write_pictures(logs: Mapping[int, EventLog], root: Path) -> list[Path]:
    """Writes ``report.html`` and ``report.png`` beside the files of an optimization.

    Args:
        logs: the events, by seed; those of the best first.
        root: folder in which the result lies.
    """
    histories = read_histories(
        {**event, "arm": _ARM, "seed": seed} for seed, log in logs.items() for event in log
    )
    source = replace(
        read_source(root),
        title="Optimization of an instruction",
        histories=tuple(histories),
        arms=(_ARM,),
        problems=(),
    )
    return draw(source, root)
