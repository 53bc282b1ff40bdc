"""What proposers around others have in common: they report, learn, cost and remember for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue, TypeAdapter, ValidationError

from evoprompt.errors import StateError
from evoprompt.roles import Proposer
from evoprompt.types import Estimate, Proposal, VerificationResult

_STATES = TypeAdapter(list[dict[str, JsonValue]])


class Wrapper(Proposer):
    """Passes on to the proposers inside what is not asked of itself.

    Args:
        inner: the proposers, the first of which counts most; at least one.
    """

    def __init__(self, *inner: Proposer) -> None:
        self.inner = inner

    def check(self, probe: bool = False) -> None:
        """Checks all."""
        for one in self.inner:
            one.check(probe)

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Tells all."""
        for one in self.inner:
            one.feedback(results)

    def notices(self) -> Sequence[str]:
        """What any of them has to say."""
        return [text for one in self.inner for text in one.notices()]

    @property
    def failures_caught(self) -> int:
        """Failures that they have caught themselves."""
        return sum(one.failures_caught for one in self.inner)

    def metrics(self) -> Mapping[str, float]:
        """The totals of all."""
        return {name: n for one in reversed(self.inner) for name, n in one.metrics().items()}

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """The cost of the first."""
        return self.inner[0].estimate(generations, count, parents)

    def state_dict(self) -> dict[str, JsonValue]:
        """The states of all."""
        states: list[JsonValue] = [one.state_dict() for one in self.inner]
        return {"inner": states}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``.

        Raises:
            StateError: it is not the state of so many proposers.
        """
        try:
            states = _STATES.validate_python(state.get("inner"))
        except ValidationError as error:
            raise StateError(f"the state of {self.name} cannot be read: {error}") from error
        if len(states) != len(self.inner):
            raise StateError(
                f"the state of {self.name} is of {len(states)} proposers; required: of "
                f"{len(self.inner)}"
            )
        for one, saved in zip(self.inner, states, strict=True):
            one.load_state_dict(saved)


def signed(proposals: Sequence[Proposal], name: str) -> list[Proposal]:
    """``proposals``, the unsigned ones signed with ``name``."""
    return [replace(one, proposer=one.proposer or name) for one in proposals]
