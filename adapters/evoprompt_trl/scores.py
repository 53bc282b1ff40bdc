"""Rewards, metrics and feedback of the rollouts of a batch, read where the trainer computes them.

Feedback in words and further numbers come by TRL's own ways: a reward function calls the
``log_extra`` that TRL hands it, or a ``rollout_func`` returns a further field ``feedback``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from evoprompt.log.turns import clip
from evoprompt.support.errors import InputError
from evoprompt_trl.host import EXTRA_LOGS, Row, TrlTrainer

FEEDBACK = "feedback"
"""Column whose texts proposers read."""

LONGEST = 4000
"""Most characters of a feedback that are kept; its beginning and its end."""


@dataclass(frozen=True, slots=True)
class RowScore:
    """Logged values of one row.

    Attributes:
        metrics: finite numbers: of reward functions as ``reward/<name>``, where a name that repeats
            is numbered, and their logged values.
        feedback: feedback in words, for proposers; may be empty.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    feedback: str = ""


def rewards_in(trainer: TrlTrainer, per_function: torch.Tensor) -> list[float | None]:
    """Return the rewards in ``per_function``, of shape (rows of all processes, reward functions).

    A reward is the weighted sum TRL trains on: ``None`` values left out, clipped where
    ``RLOOConfig.reward_clip_range`` says so; None where every function returned None. RLOO's KL
    penalty is not part of it: it is about the policy's distance from the reference, not about how
    well the instruction did.
    """
    weights = trainer.reward_weights.to(per_function.device)
    total = (per_function * weights.unsqueeze(0)).nansum(dim=1)
    bounds: tuple[float, float] | None = getattr(trainer, "reward_clip_range", None)
    if bounds:
        total = total.clamp(min=bounds[0], max=bounds[1])
    unscored = per_function.isnan().all(dim=1).tolist()
    return [
        None if is_unscored else reward
        for is_unscored, reward in zip(unscored, total.tolist(), strict=True)
    ]


def scores_in(
    trainer: TrlTrainer, per_function: torch.Tensor, rows: Sequence[Row], from_rollouts: bool
) -> list[RowScore]:
    """Return the logged values of each row of this process that the trainer has just scored.

    Args:
        trainer: the trainer, which keeps logged values until the end of the batch.
        per_function: values of the rows of this process, one for each reward function.
        rows: rows as the reward functions received them.
        from_rollouts: whether a field ``feedback`` of the rows is of the rollouts, not of the
            dataset.

    Raises:
        InputError: feedback was logged for another number of rows.
    """
    feedback: list[list[object]] = [[row.get(FEEDBACK)] if from_rollouts else [] for row in rows]
    names = [f"reward/{name}" for name in _numbered(trainer.reward_func_names)]
    metrics: list[dict[str, float]] = [
        {name: value for name, value in zip(names, values, strict=True) if math.isfinite(value)}
        for values in per_function.tolist()
    ]
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
        for index, value in enumerate(values):  # of one reward function after the other
            row = index % len(rows)
            if column == FEEDBACK:
                feedback[row].append(value)
            elif isinstance(value, int | float) and math.isfinite(value):
                metrics[row][column] = float(value)
    return [
        RowScore(numbers, clip("\n".join(str(text) for text in texts if text), LONGEST))
        for texts, numbers in zip(feedback, metrics, strict=True)
    ]


def _numbered(names: Sequence[str]) -> list[str]:
    """Add numbers to repeated names, as of two lambdas or two partials of one function.

    >>> _numbered(["match", "<lambda>", "<lambda>"])
    ['match', '<lambda>', '<lambda>_2']
    """
    seen: Counter[str] = Counter()
    distinct_names = []
    for name in names:
        seen[name] += 1
        distinct_names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return distinct_names
