"""What a run is going to cost, said before it starts."""

from __future__ import annotations

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


def forecast(proposer: object, config: EngineConfig) -> Estimate:
    """What ``proposer`` will cost in a run of ``config``: nothing if it has no price.

    One round a generation is counted, and one generation if evolution has no end.
    """
    if not isinstance(proposer, Priced):
        return Estimate(0, 0, 0.0)
    count = config.proposals_per_round or max(config.population_size - config.parents, 1)
    return proposer.estimate(generations(config), count, config.parents)


def generations(config: EngineConfig) -> int:
    """Number of generations until evolution ends, the filling at the start included.

    One if there is no end.
    """
    if config.evolve_until is None:
        return 1
    return config.evolve_until // config.evolve_every + config.fill_at_start
