"""How the agent is played, in training and in every evaluation alike."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from evoprompt.agents import Limits
from evoprompt.prompts import Placement
from evoprompt_search_qa.open.instruction import SEED


class AgentSettings(BaseModel):
    """What can be chosen about the agent.

    Attributes:
        topk: passages a search.
        searches: most searches an episode; a further one ends it without an answer.
        turn_tokens: most tokens the policy may write before a search or answer.
        observation_tokens: most tokens of passages it is shown.
        placement: whether the instruction precedes the question in the user's message (``user``),
            or is the system message (``append`` or ``replace``, the same here); plain text for a
            model without a chat template.
        instruction: what to start from; by default one in the manner of Search-R1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    topk: int = Field(default=3, ge=1)
    searches: int = Field(default=4, ge=1)
    turn_tokens: int = Field(default=500, ge=1)
    observation_tokens: int = Field(default=500, ge=32)
    placement: Placement = "user"
    instruction: str = Field(default=SEED, min_length=1)

    @property
    def limits(self) -> Limits:
        """What an episode may use."""
        return Limits(self.searches, self.turn_tokens, self.observation_tokens)
