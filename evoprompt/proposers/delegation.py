"""Passing on what only some proposers do: reporting, learning, pricing, keeping state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue, TypeAdapter

from evoprompt.errors import StateError
from evoprompt.lm.estimate import Estimate, Priced
from evoprompt.roles import (
    Checkable,
    Delegates,
    Proposer,
    Stateful,
    SupportsFeedback,
    SupportsMetrics,
)
from evoprompt.types import Proposal, VerificationResult

COUNT = TypeAdapter(int)
"""Reads a number of times from a saved state."""


def name_of(proposer: Proposer) -> str:
    """How a proposer signs: its ``name``, or that of its class."""
    name = getattr(proposer, "name", None)
    return name if isinstance(name, str) else type(proposer).__name__


def signed(proposals: Sequence[Proposal], name: str) -> list[Proposal]:
    """``proposals``, the unsigned ones signed with ``name``."""
    return [replace(one, proposer=one.proposer or name) for one in proposals]


def check_of(proposer: Proposer, probe: bool = False) -> None:
    """Checks ``proposer`` if it can be checked."""
    if isinstance(proposer, Checkable):
        proposer.check(probe)


def notices_of(proposer: Proposer) -> Sequence[str]:
    """What ``proposer`` has to say, if it says anything."""
    return proposer.notices() if isinstance(proposer, SupportsMetrics) else []


def metrics_of(proposer: Proposer) -> Mapping[str, float]:
    """The totals of ``proposer``, if it keeps any."""
    return proposer.metrics() if isinstance(proposer, SupportsMetrics) else {}


def failures_caught_by(proposer: Proposer) -> int:
    """How often ``proposer`` went on although one that it had asked failed."""
    return proposer.failures_caught() if isinstance(proposer, Delegates) else 0


def teach(proposer: Proposer, results: Sequence[VerificationResult]) -> None:
    """Gives ``results`` to ``proposer`` if it learns."""
    if results and isinstance(proposer, SupportsFeedback):
        proposer.feedback(results)


def estimate_of(proposer: Proposer, generations: int, count: int, parents: int) -> Estimate:
    """What ``proposer`` will cost; nothing if it has no price."""
    if isinstance(proposer, Priced):
        return proposer.estimate(generations, count, parents)
    return Estimate(0, 0, 0.0)


def state_of(proposer: Proposer) -> dict[str, JsonValue]:
    """The state of ``proposer``, empty if it has none."""
    return proposer.state_dict() if isinstance(proposer, Stateful) else {}


def restore(proposer: Proposer, state: JsonValue) -> None:
    """Lets ``proposer`` continue from ``state``, if it has any.

    Raises:
        StateError: ``state`` is no state at all.
    """
    if not isinstance(state, Mapping):
        raise StateError(f"the state of {name_of(proposer)} is {state!r}; required: a mapping")
    if isinstance(proposer, Stateful):
        proposer.load_state_dict(state)
