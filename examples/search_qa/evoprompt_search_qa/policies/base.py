"""What every method asks of a policy, whatever it is: to go on where a dialogue stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from evoprompt.errors import EvopromptError
from evoprompt.types import Turn


class PolicyError(EvopromptError, RuntimeError):
    """A policy could not answer; it says nothing about question, method or instruction."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What a policy is to continue.

    Attributes:
        instruction: how to behave.
        question: what is asked.
        turns: what was said and shown since. A first turn without an action is what was given
            together with the question.
    """

    instruction: str
    question: str
    turns: tuple[Turn, ...] = ()

    @property
    def given(self) -> str:
        """What was shown together with the question; usually nothing."""
        return self.turns[0].observation if self.turns and not self.turns[0].action else ""

    @property
    def replied(self) -> tuple[Turn, ...]:
        """The turns that begin with an action."""
        return self.turns[1:] if self.given else self.turns


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose tokens.

    Attributes:
        max_tokens: most tokens of a reply, at least 1.
        stop: a reply ends after the first of these texts, which it includes.
        temperature: of sampling; 0 takes the most likely token.
    """

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0


Reply = str | PolicyError
"""What the policy wrote, or why it wrote nothing."""


class Policy(Protocol):
    """Continues many dialogues at a time."""

    @property
    def name(self) -> str:
        """What tells it from other policies, for records."""
        ...

    def complete(self, dialogues: Sequence[Dialogue], sampling: Sampling) -> list[Reply]:
        """One reply a dialogue, in order; a dialogue that fails costs only its own reply."""
        ...


class NamedPolicy(Policy, Protocol):
    """A policy that was named on a command line, and that records have to tell from others."""

    def revision(self) -> str:
        """Which weights answer, the same as long as they are; empty if nobody can tell."""
        ...

    def written(self, dialogue: Dialogue) -> str:
        """The dialogue as the model is given it."""
        ...
