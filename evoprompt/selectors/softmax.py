"""Draws candidates in proportion to the exponential of their weight (paper Eq. 4)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from evoprompt.roles import Selector
from evoprompt.types import CandidateStats


class Softmax(Selector):
    """Selection probability ``exp(w_j / tau) / sum_k exp(w_k / tau)``, with replacement.

    Args:
        temperature: ``tau``, finite and greater than 0. Small values favour the best, large ones
            draw evenly.
    """

    def __init__(self, temperature: float = 0.2) -> None:
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature is {temperature}; required: finite and greater than 0")
        self.temperature = temperature

    def probabilities(self, candidate_stats: Sequence[CandidateStats]) -> list[float]:
        """The chance of each candidate to be drawn next; stable for weights of any size."""
        top = max(stats.weight for stats in candidate_stats)
        powers = [math.exp((stats.weight - top) / self.temperature) for stats in candidate_stats]
        total = math.fsum(powers)
        return [power / total for power in powers]

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        """``k`` independent draws."""
        return rng.choices(candidate_stats, self.probabilities(candidate_stats), k=k)
