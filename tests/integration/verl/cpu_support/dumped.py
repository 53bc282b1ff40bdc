"""What a training with veRL has dumped and logged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from cpu_support.launch import Training


def of_kind(training: Training, kind: str) -> list[dict[str, Any]]:
    return [event for event in training.events() if event["event"] == kind]


def groups(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of veRL's dump by the uid of their prompt."""
    found = defaultdict(list)
    for row in rows:
        found[row["uid"].rsplit("_", 2)[0]].append(row)
    return found


def instruction_of(row: dict[str, Any]) -> str:
    """The system message in the prompt that veRL dumped; control tokens are left out there."""
    lines: list[str] = row["input"].splitlines()
    return lines[lines.index("system") + 1]
