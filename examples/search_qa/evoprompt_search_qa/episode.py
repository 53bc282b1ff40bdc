"""One rollout with the search tool, token by token, whichever policy and trainer played it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from evoprompt.types import Turn

End = Literal["answered", "malformed", "out of turns", "failed"]


@dataclass(slots=True)
class Episode:
    """What one rollout said and saw.

    Attributes:
        prompt_ids: tokens of the prompt.
        completion_ids: actions and observations in order; never empty.
        policy_mask: 1 for each completion token that the policy chose, 0 for what it was shown.
        logprobs: log-probability of each chosen token at the sampling temperature, in nats; 0
            for the others.
        turns: the same as text.
        end: why it ended; ``"failed"`` when the tool broke, which says nothing about the policy.
    """

    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    policy_mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    end: End = "malformed"

    @property
    def searches(self) -> int:
        """Number of searches that were answered."""
        return sum(bool(turn.observation) for turn in self.turns)
