"""Outcome of one rollout of a program, and the reasons why an optimization ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from evoprompt.support.errors import EvopromptError, InputError
from evoprompt.types import Turn

INTERRUPTED = "it was interrupted"
"""Reason of an optimization that ended at Ctrl-C, or because a callback or a host stopped it."""

LM_SPENT = "the budget of the language model is spent"
"""Reason of an optimization that ended because the proposer's budget was spent."""

PERFECT = "the incumbent is perfect on the whole validation set"
RIGHT_WHERE_SCORED = (
    "the incumbent is right at the {scored} validation questions that it has a reward for; at "
    "{failed} other questions the program failed"
)
FAILS_NOTHING = "the incumbent fails no training question every time: nothing to learn from"


@dataclass(frozen=True, slots=True)
class Reading:
    """Record of a rollout for a proposer that rewrites one component of the program.

    Attributes:
        question: input of the component.
        turns: actions of the component.
        feedback: feedback about the component.
        row: the same as data, for a proposer that reads data.
    """

    question: str
    turns: Sequence[Turn]
    feedback: str = ""
    row: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExampleOutcome:
    """Output of a program for an example, with its reward and feedback.

    Evoprompt's metric for DSPy programs returns one, with a reading for each component.

    Attributes:
        reward: the reward; None if the program failed.
        output: the program's output, as text.
        feedback: the metric's feedback.
        attempts: number of calls of the program, each of them a rollout.
        fault: the error, whether there is a reward for that or none; empty if there was no error.
        turns: actions of an agent in order; empty for any other program.
        readings: reading of each component, if components have separate readings.
        metrics: further numbers of the score, which may have limits.
    """

    reward: float | None
    output: str = ""
    feedback: str = ""
    attempts: int = 1
    fault: str = ""
    turns: Sequence[Turn] = ()
    readings: Mapping[str, Reading] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


class BudgetSpentError(EvopromptError, RuntimeError):
    """Error before rollouts for which a limit does not leave enough; none of them was made."""


class StoppedError(InputError):
    """Error of an optimization that was stopped before its first seed was measured."""


def with_remedy(message: str, remedy: str) -> str:
    """Return ``message`` with the remedy, unless it names one, as the errors of evoprompt do."""
    return message if "required: " in message else f"{message}; required: {remedy}"
