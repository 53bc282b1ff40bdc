"""What a run is going to cost, said before it starts."""

from __future__ import annotations

from dataclasses import dataclass


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
