"""What a run is going to cost, said before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from evoprompt.config import EngineConfig


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected calls, tokens and cost; ``usd`` is None when the price is unknown.

    >>> str(Estimate(11, 60_000, 0.2))
    'about 11 calls, 60,000 tokens, 0.2 USD'
    """

    calls: int
    tokens: int
    usd: float | None

    def __add__(self, other: Estimate) -> Estimate:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Estimate(self.calls + other.calls, self.tokens + other.tokens, usd)

    def __str__(self) -> str:
        cost = "price unknown" if self.usd is None else f"{self.usd:.2g} USD"
        return f"about {self.calls} calls, {self.tokens:,} tokens, {cost}"


@runtime_checkable
class Priced(Protocol):
    """A proposer that knows what it will cost."""

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """The cost of ``generations`` requests for ``count`` proposals from ``parents`` parents."""
        ...


def forecast(proposer: object, config: EngineConfig, generations: int, count: int) -> Estimate:
    """What ``proposer`` will cost in ``generations`` of one round each: nothing without a price.

    Args:
        proposer: who is asked.
        config: the engine's numbers.
        generations: requests.
        count: proposals of a request.
    """
    if not isinstance(proposer, Priced):
        return Estimate(0, 0, 0.0)
    return proposer.estimate(generations, count, config.parents)


def generations_within(
    config: EngineConfig, budget: int, rollouts_per_step: int, verification: int
) -> int:
    """Number of generations in a training of ``budget`` rollouts, with the filling at the start.

    Args:
        config: the engine's numbers.
        budget: rollouts after which training ends, verification included.
        rollouts_per_step: of training.
        verification: rollouts of a generation.
    """
    period = config.evolve_every * rollouts_per_step
    # One that is due when the budget is spent does not take place.
    affordable = max(0, math.ceil((budget - period) / (period + verification)))
    if config.evolve_until is not None:
        affordable = min(affordable, config.evolve_until // config.evolve_every)
    return affordable + config.fill_at_start
