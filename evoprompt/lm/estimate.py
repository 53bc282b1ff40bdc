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


def generations(config: EngineConfig, steps: int | None = None) -> int:
    """Number of generations of a run of ``steps`` steps, the filling at the start included.

    One round each is counted; None for ``steps`` means until evolution ends.
    """
    ends = [end for end in (config.evolve_until, steps) if end is not None]
    return (min(ends) // config.evolve_every if ends else 0) + config.fill_at_start
