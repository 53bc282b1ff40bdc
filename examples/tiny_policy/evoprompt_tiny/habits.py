"""How the sentences of an instruction move what a demonstrator does.

Every habit has log-odds; the ideas that an instruction holds are added to them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Mapping, Sequence

Script = Generator[str, str, None]
"""A demonstrator: yields what it says, is given the result of its call, ends with its answer."""

Odds = dict[str, float]
"""Log-odds by habit."""


def odds(
    habits: Mapping[str, float], effects: Mapping[str, Mapping[str, float]], ideas: Sequence[str]
) -> Odds:
    """The log-odds of every habit under an instruction.

    Args:
        habits: what demonstrators do unless they are told otherwise.
        effects: how an idea moves them; one that is missing does nothing.
        ideas: of the instruction.

    >>> odds({"search": 0.0}, {"hurry": {"search": -2.0}}, ["hurry", "be polite"])
    {'search': -2.0}
    """
    return {
        name: usual + sum(effects.get(idea, {}).get(name, 0.0) for idea in ideas)
        for name, usual in habits.items()
    }


def chance(log_odds: float) -> float:
    """The probability that goes with them.

    >>> chance(0.0), chance(-math.inf)
    (0.5, 0.0)
    """
    return 0.0 if log_odds == -math.inf else 1.0 / (1.0 + math.exp(-log_odds))


def happens(log_odds: float, rng: random.Random) -> bool:
    """Whether it does, this time."""
    return rng.random() < chance(log_odds)


def choose(strategies: Mapping[str, float], rng: random.Random) -> str:
    """One of several strategies that exclude each other, by their log-odds."""
    weights = [math.exp(value) for value in strategies.values()]
    return rng.choices(list(strategies), weights)[0]
