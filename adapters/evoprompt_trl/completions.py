"""What the policy wrote and what the environment answered, taken apart by TRL's token mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from evoprompt.agents import Decode, turns
from evoprompt.types import Turn


@dataclass(frozen=True, slots=True)
class Completion:
    """The tokens that followed one prompt.

    Attributes:
        ids: token ids, without padding.
        by_policy: for each token whether the policy emitted it; None when the host does not say,
            which means all of them.
    """

    ids: Sequence[int]
    by_policy: Sequence[bool] | None = None

    def metrics(self) -> dict[str, float]:
        """``response_tokens``, the policy's own; ``tool_calls``, if observations are marked."""
        if self.by_policy is None:
            return {"response_tokens": float(len(self.ids))}
        observations = sum(not policy for policy, _ in groupby(self.by_policy))
        return {
            "response_tokens": float(sum(self.by_policy)),
            "tool_calls": float(observations),
        }

    def turns(self, decode: Decode) -> tuple[Turn, ...]:
        """The actions and the observations between them, as text."""
        if self.by_policy is None:
            return (Turn(decode([list(self.ids)])[0]),)
        return turns(self.ids, self.by_policy, decode)
