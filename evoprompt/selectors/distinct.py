"""Makes any selector choose different candidates, as survivors and parents must be."""

from __future__ import annotations

import random
from collections.abc import Sequence

from evoprompt.engine.checks import sound_choice
from evoprompt.interfaces import Selector
from evoprompt.types import CandidateStats


def select_distinct(
    selector: Selector, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
) -> list[CandidateStats]:
    """``min(k, len(candidates))`` different candidates, in the order the selector chose them.

    Repetitions are dropped and the selector is asked again for the rest, among those not chosen
    yet.

    Raises:
        ValueError: the selector did not choose as many as it was asked for, of those it was given.
    """
    chosen: dict[str, CandidateStats] = {}
    left = {stats.candidate.id: stats for stats in candidate_stats}
    while left and len(chosen) < k:
        given = list(left.values())
        for stats in sound_choice(selector, given, min(k - len(chosen), len(given)), rng):
            if left.pop(stats.candidate.id, None):
                chosen[stats.candidate.id] = stats
    return list(chosen.values())
