"""What one rollout of a program came to."""

from __future__ import annotations

from dataclasses import dataclass

from evoprompt.errors import EvopromptError, InputError


@dataclass(frozen=True, slots=True)
class Outcome:
    """A program's output for an example, and what the metric says of it.

    Attributes:
        reward: what the metric returned; None where the program failed.
        output: what the program returned, as text.
        feedback: the metric's words.
        attempts: how often the program was called, each of them a rollout.
        fault: why there is no reward; empty if there is one.
    """

    reward: float | None
    output: str = ""
    feedback: str = ""
    attempts: int = 1
    fault: str = ""


class MetricError(InputError):
    """The metric raised, or returned something that is no number."""


class BudgetSpentError(EvopromptError, RuntimeError):
    """The next rollouts were not made, because a limit does not leave enough for them."""
