"""Effects of the sentences of an instruction on a demonstrator.

Every habit has log-odds; the effects of the ideas in an instruction are added to them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Mapping, Sequence

Script = Generator[str, str, None]
"""A demonstrator: yields its actions, receives the results of its calls, ends with its answer."""

Odds = dict[str, float]
"""Log-odds by habit."""


def odds(
    habits: Mapping[str, float], effects: Mapping[str, Mapping[str, float]], ideas: Sequence[str]
) -> Odds:
    """Return the log-odds of every habit under an instruction.

    Args:
        habits: log-odds of demonstrators without an instruction.
        effects: changes of the log-odds by an idea; a missing idea has no effect.
        ideas: of the instruction.

    >>> odds({"search": 0.0}, {"hurry": {"search": -2.0}}, ["hurry", "be polite"])
    {'search': -2.0}
    """
    return {
        name: usual + sum(effects.get(idea, {}).get(name, 0.0) for idea in ideas)
        for name, usual in habits.items()
    }


def chance(log_odds: float) -> float:
    """Return the probability of log-odds.

    >>> chance(0.0), chance(-math.inf)
    (0.5, 0.0)
    """
    return 0.0 if log_odds == -math.inf else 1.0 / (1.0 + math.exp(-log_odds))


def happens(log_odds: float, rng: random.Random) -> bool:
    """Return whether it happens, this time."""
    return rng.random() < chance(log_odds)


def choose(strategies: Mapping[str, float], rng: random.Random) -> str:
    """Return one of several strategies that exclude each other, by their log-odds."""
    weights = [math.exp(value) for value in strategies.values()]
    return rng.choices(list(strategies), weights)[0]
