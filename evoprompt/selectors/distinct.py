"""Makes any selector choose different candidates, as survivors and parents must be."""

from __future__ import annotations

import random
from collections.abc import Sequence

from evoprompt.interfaces import Selector
from evoprompt.types import Standing


def select_distinct(
    selector: Selector, standings: Sequence[Standing], k: int, rng: random.Random
) -> list[Standing]:
    """``min(k, len(standings))`` different standings, in the order the selector chose them.

    Repetitions are dropped and the selector is asked again for the rest, among those not chosen
    yet.

    Raises:
        ValueError: the selector chose none of those it was given, which would go on for ever.
    """
    chosen: dict[str, Standing] = {}
    left = {standing.candidate.id: standing for standing in standings}
    while left and len(chosen) < k:
        given = list(left.values())
        for standing in selector.select(given, min(k - len(chosen), len(given)), rng):
            if left.pop(standing.candidate.id, None):
                chosen[standing.candidate.id] = standing
        if len(left) == len(given):
            raise ValueError(
                f"{type(selector).__name__} chose none of the {len(given)} candidates it was "
                "given; required: as many as asked for; mend the selector"
            )
    return list(chosen.values())
