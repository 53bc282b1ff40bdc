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
    """
    chosen: dict[str, Standing] = {}
    while len(chosen) < min(k, len(standings)):
        left = [standing for standing in standings if standing.candidate.id not in chosen]
        for standing in selector.select(left, min(k - len(chosen), len(left)), rng):
            chosen.setdefault(standing.candidate.id, standing)
    return list(chosen.values())
