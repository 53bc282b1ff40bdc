"""Draws candidates as often as they may be the best, in view of how little is known of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evoprompt.roles import Selector
from evoprompt.types import CandidateStats


class Thompson(Selector):
    """Draws the best of one guess per candidate (Thompson, 1933).

    A guess is normal about the weight with the standard error of the weight: who is known to be
    worse is hardly drawn, who is not known well is. A candidate that was never measured counts as
    no better known than the least known of the others.
    """

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        """``k`` independent draws."""
        leaders = _guesses(candidate_stats, k, rng).argmax(axis=1)
        return [candidate_stats[leader] for leader in leaders]


class TopTwo(Selector):
    """Draws as :class:`Thompson` does, but often the one who would be the best without the first.

    It tells the two best apart sooner, at the cost of drawing the best less often (Russo, 2016).

    Args:
        challenger: chance that a draw is the second's, in [0, 1].
    """

    def __init__(self, challenger: float = 0.5) -> None:
        if not 0 <= challenger <= 1:
            raise ValueError(f"challenger is {challenger}; required: a chance, 0 to 1")
        self.challenger = challenger

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        """``k`` independent draws."""
        first = _guesses(candidate_stats, k, rng).argmax(axis=1)
        others = _guesses(candidate_stats, k, rng)
        if len(candidate_stats) > 1:
            others[np.arange(k), first] = -np.inf
        second = others.argmax(axis=1)
        return [
            candidate_stats[second[draw] if rng.random() < self.challenger else first[draw]]
            for draw in range(k)
        ]


def _guesses(
    candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
) -> NDArray[np.float64]:
    """Guesses of the candidates' weights, shape (k, candidates)."""
    weights = np.array([stats.weight for stats in candidate_stats])
    errors = np.array([stats.stderr for stats in candidate_stats])
    measured = np.isfinite(errors)
    widest = max(errors[measured].max(initial=0.0), weights.std())
    errors = np.where(measured, errors, widest if widest > 0 else 1.0)
    drawn = np.random.default_rng(rng.getrandbits(64)).standard_normal((k, len(weights)))
    return weights + errors * drawn
