"""What one rollout of a program came to, what it cost, and why an optimization ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from evoprompt.support.errors import EvopromptError
from evoprompt.types import Turn

INTERRUPTED = "it was interrupted"
"""Why an optimization ended at Ctrl-C."""

LM_SPENT = "the budget of the language model is spent"
"""Why an optimization ended without a proposer."""

PERFECT = "the incumbent is perfect on the whole validation set"
RIGHT_WHERE_SCORED = (
    "the incumbent is right at the {scored} validation questions that it has a reward for; at "
    "{failed} others the program failed"
)
FAILS_NOTHING = "the incumbent fails no training question every time: nothing to learn from"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a proposer reads of a rollout that is to rewrite one component of the program.

    Attributes:
        question: what the component was given.
        turns: what it did.
        feedback: what is to be said of it.
        row: the same as data, for a proposer that takes it so.
    """

    question: str
    turns: Sequence[Turn]
    feedback: str = ""
    row: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExampleOutcome:
    """A program's output for an example, and what the metric says of it.

    A metric of ours may return one, to say what to read of each component.

    Attributes:
        reward: what the metric returned; None where the program failed.
        output: what the program returned, as text.
        feedback: the metric's words.
        attempts: how often the program was called, each of them a rollout.
        fault: what went wrong, whether there is a reward for that or none; empty if nothing did.
        turns: what an agent did, action by action; empty for any other program.
        readings: what to read of it by component, where components have their own.
    """

    reward: float | None
    output: str = ""
    feedback: str = ""
    attempts: int = 1
    fault: str = ""
    turns: Sequence[Turn] = ()
    readings: Mapping[str, Reading] = field(default_factory=dict)


class BudgetSpentError(EvopromptError, RuntimeError):
    """The next rollouts were not made, because a limit does not leave enough for them."""


def with_remedy(said: str, remedy: str) -> str:
    """``said``, and what is required, unless it says so itself, as errors of ours do."""
    return said if "required: " in said else f"{said}; required: {remedy}"
