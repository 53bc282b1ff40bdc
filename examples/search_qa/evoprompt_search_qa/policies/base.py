"""What every method asks of a policy, whatever it is: to go on after the tokens of an episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evoprompt.agents import ChatTokenizer, Sampler


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy that can be asked.

    Attributes:
        name: what tells it from other policies, for records.
        tokenizer: of the policy.
        sampler: makes the sampler of one play.
        revision: which weights answer, the same as long as they are; empty if nobody can tell.
    """

    name: str
    tokenizer: ChatTokenizer
    sampler: Callable[[], Sampler]
    revision: str = ""
