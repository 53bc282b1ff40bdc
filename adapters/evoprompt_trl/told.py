"""What is told of rollouts besides their rewards: feedback in words, and further numbers.

Both come by TRL's own ways: a reward function calls the ``log_extra`` that TRL hands it, or a
``rollout_func`` returns a further field ``feedback``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evoprompt.errors import InputError
from evoprompt.proposers.episodes import clip
from evoprompt_trl.host import EXTRA_LOGS, HostTrainer, Row

FEEDBACK = "feedback"
"""Column whose texts proposers read."""

LONGEST = 4000
"""Most characters of a feedback that are kept; its beginning and its end."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of one row.

    Attributes:
        feedback: in words, for proposers; empty if nothing was said.
        metrics: the finite numbers, by the names of their columns.
    """

    feedback: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)


def told(trainer: HostTrainer, rows: Sequence[Row], from_rollouts: bool) -> list[Told]:
    """What was told of each of the rows of this process that the trainer has just scored.

    Args:
        trainer: which keeps what reward functions logged until the end of the batch.
        rows: as the reward functions were given them.
        from_rollouts: whether a field ``feedback`` of the rows is of the rollouts, not of the
            dataset.

    Raises:
        InputError: feedback was logged for another number of rows.
    """
    feedback: list[list[object]] = [[row.get(FEEDBACK)] if from_rollouts else [] for row in rows]
    metrics: list[dict[str, float]] = [{} for _ in rows]
    logged: Mapping[str, Sequence[Any]] = getattr(trainer, EXTRA_LOGS, {})
    for column, values in logged.items():
        if len(values) % len(rows):
            if column == FEEDBACK:
                raise InputError(
                    f"reward functions logged {len(values)} values of {FEEDBACK!r} for {len(rows)} "
                    "rollouts; required: one for each; log an empty text where there is nothing "
                    "to say"
                )
            continue
        for place, value in enumerate(values):  # of one reward function after the other
            row = place % len(rows)
            if column == FEEDBACK:
                feedback[row].append(value)
            elif isinstance(value, int | float) and math.isfinite(value):
                metrics[row][column] = float(value)
    return [
        Told(clip("\n".join(str(text) for text in texts if text), LONGEST), numbers)
        for texts, numbers in zip(feedback, metrics, strict=True)
    ]
