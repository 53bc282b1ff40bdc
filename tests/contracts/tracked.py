"""What must be in a tracker after a training, whoever the trainer was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pytest
from tracker_readers import Seen

from evoprompt.experiments.trackers import rows_of

TRACKERS = [
    "tensorboard",
    *(pytest.param(name, marks=pytest.mark.trackers) for name in ("wandb", "mlflow", "trackio")),
]


def assert_tracked(found: Seen, events: Iterable[Mapping[str, Any]]) -> None:
    """Fails unless numbers and the table of candidates are there."""
    events = list(events)
    rows = [asdict(row) for row in rows_of(events)]
    assert {row["status"] for row in rows} >= {"alive", "left"}, "too little happened to see it"
    (sizes,) = [
        values for name, values in found.numbers.items() if name.endswith("/population_size")
    ]
    assert sizes[-1] == sum(row["status"] == "alive" for row in rows)
    first, *later = found.tables
    seeds = [event["candidate"] for event in events if event["event"] == "seeded"]
    assert [row["id"] for row in first] == seeds
    assert later, "it was not sent again when the population had changed"
    for row, told in zip(rows, later[-1], strict=True):
        weight = row["weight"]  # None of who was never measured
        assert told == {**row, "weight": weight and pytest.approx(weight, rel=1e-3)}
