"""What a selector chooses is checked; survivors and parents must be different candidates."""

from __future__ import annotations

import random
from collections.abc import Sequence

from evoprompt.roles import Selector
from evoprompt.types import CandidateStats


def sound_choice(
    selector: Selector, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
) -> list[CandidateStats]:
    """``k`` of ``candidate_stats``, chosen by ``selector``.

    Raises:
        ValueError: it chose another number, or somebody it was not given.
    """
    chosen = list(selector.select(candidate_stats, k, rng))
    given = {stats.candidate.id for stats in candidate_stats}
    strangers = [
        one
        for one in chosen
        if not isinstance(one, CandidateStats) or one.candidate.id not in given
    ]
    if strangers:
        raise ValueError(f"it chose {strangers[0]!r}; required: only candidates it was given")
    if len(chosen) != k:
        raise ValueError(f"it chose {len(chosen)} candidates; required: exactly {k}")
    return chosen


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
