"""Makes any selector choose different candidates, as survivors and parents must be."""

from __future__ import annotations

import random
from collections.abc import Sequence

from evoprompt.interfaces import Selector
from evoprompt.soundness import sound_choice
from evoprompt.types import Standing


def select_distinct(
    selector: Selector, standings: Sequence[Standing], k: int, rng: random.Random
) -> list[Standing]:
    """``min(k, len(standings))`` different standings, in the order the selector chose them.

    Repetitions are dropped and the selector is asked again for the rest, among those not chosen
    yet.

    Raises:
        ValueError: the selector did not choose as many as it was asked for, of those it was given.
    """
    chosen: dict[str, Standing] = {}
    left = {standing.candidate.id: standing for standing in standings}
    while left and len(chosen) < k:
        given = list(left.values())
        for standing in sound_choice(selector, given, min(k - len(chosen), len(given)), rng):
            if left.pop(standing.candidate.id, None):
                chosen[standing.candidate.id] = standing
    return list(chosen.values())
