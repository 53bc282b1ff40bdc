"""What one episode may use, in searches and tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What an episode may use.

    Attributes:
        searches: most searches; a further one ends the episode without an answer.
        turn_tokens: most tokens an action.
        observation_tokens: most tokens an observation, tags included; its end is cut off.
    """

    searches: int
    turn_tokens: int
    observation_tokens: int

    @property
    def response_tokens(self) -> int:
        """Most tokens an episode adds to its prompt."""
        return (self.searches + 1) * self.turn_tokens + self.searches * self.observation_tokens
