"""What the best instruction is worth, without the luck of having been chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

_RESAMPLES = 400


def corrected(best: Mapping[str, float], others: Sequence[Mapping[str, float]], seed: int) -> float:
    """The mean reward of ``best``, had it been chosen by other questions.

    The best of many is chosen by the questions that it did well at, so its mean there is too high.
    Here the choice is made again on questions that are drawn from them with repetition, and whoever
    is chosen counts with the questions that were not drawn (the bootstrap bias correction of
    Tsamardinos, Greasidou and Borboudakis, 2018). Where one that was given up early was not asked,
    it counts for the choice like ``best``, and for the value by its mean difference from that.

    Args:
        best: mean reward by question; at least one.
        others: the same of those that it was preferred to.
        seed: of the draws.
    """
    questions = list(best)
    known = [one for one in others if not one.keys().isdisjoint(best)]
    mean = math.fsum(best.values()) / len(best)
    if not known or len(questions) < 2:
        return mean
    own = np.array([best[name] for name in questions])
    rewards = np.array([[one.get(name, np.nan) for name in questions] for one in (best, *known)])
    asked = ~np.isnan(rewards)
    gains = np.where(asked, rewards - own, 0.0)
    usual = gains.sum(axis=1) / asked.sum(axis=1)
    rewards = np.where(asked, rewards, own + usual[:, None])
    draws = np.random.default_rng(seed).multinomial(
        len(questions), np.full(len(questions), 1 / len(questions)), size=_RESAMPLES
    )
    left = draws == 0
    draws, left = draws[left.any(axis=1)], left[left.any(axis=1)]
    if not len(draws):
        return mean
    totals = draws @ gains.T
    chosen = (totals > totals[:, :1] + 1e-9).any(axis=1) * totals.argmax(axis=1)  # ties: the best
    found = (rewards[chosen] * left).sum(axis=1) / left.sum(axis=1)
    return float(min(found.mean(), mean))
