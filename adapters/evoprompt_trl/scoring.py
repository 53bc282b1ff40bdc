"""The rewards a trainer trains on, read where it computes them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from evoprompt_trl.host import HostTrainer


@dataclass(frozen=True, slots=True)
class Scores:
    """What the reward functions said about one batch.

    Attributes:
        completion_ids: token ids of the completions of this process, without padding.
        rewards: one per row over all processes; None where every reward function returned None.
        by_function: for each of these rows the finite values, as ``reward/<name>``; a name that
            repeats is numbered, ``reward/<name>_2``.
    """

    completion_ids: Sequence[Sequence[int]]
    rewards: Sequence[float | None]
    by_function: Sequence[dict[str, float]]


def scores(
    trainer: HostTrainer, per_function: torch.Tensor, completion_ids: Sequence[Sequence[int]]
) -> Scores:
    """The scores in ``per_function``, of shape (rows of all processes, reward functions).

    A reward is the weighted sum TRL trains on: ``None`` values left out, clipped where
    ``RLOOConfig.reward_clip_range`` says so. RLOO's KL penalty is not part of it: it is about the
    policy's distance from the reference, not about how well the instruction did.
    """
    weights = trainer.reward_weights.to(per_function.device)
    total = (per_function * weights.unsqueeze(0)).nansum(dim=1)
    clip: tuple[float, float] | None = getattr(trainer, "reward_clip_range", None)
    if clip:
        total = total.clamp(min=clip[0], max=clip[1])
    unscored = per_function.isnan().all(dim=1).tolist()
    rewards = [
        None if missing else reward
        for missing, reward in zip(unscored, total.tolist(), strict=True)
    ]
    names = _numbered(trainer.reward_func_names)
    by_function = [
        {
            f"reward/{name}": value
            for name, value in zip(names, values, strict=True)
            if math.isfinite(value)
        }
        for values in per_function.tolist()
    ]
    return Scores(completion_ids, rewards, by_function)


def _numbered(names: Sequence[str]) -> list[str]:
    """``names``, of which two lambdas or two partials of one function may be alike, made different.

    >>> _numbered(["match", "<lambda>", "<lambda>"])
    ['match', '<lambda>', '<lambda>_2']
    """
    seen: Counter[str] = Counter()
    different = []
    for name in names:
        seen[name] += 1
        different.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return different
