"""Fallback: another proposer for the times when the first one fails."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from pydantic import JsonValue, ValidationError

from evoprompt.errors import InputError, StateError
from evoprompt.lm.estimate import Estimate
from evoprompt.proposers.delegation import (
    COUNT,
    check_of,
    estimate_of,
    failures_caught_by,
    metrics_of,
    name_of,
    notices_of,
    restore,
    signed,
    state_of,
    teach,
)
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.text import told_with_place
from evoprompt.types import Proposal, VerificationResult


class Fallback:
    """Asks ``first``; when that raises, says so and asks ``second``.

    Every generation begins with ``first`` again: an outage may end.

    Args:
        first: the proposer of choice, such as one that asks a language model.
        second: one that cannot fail for the same reason, such as ``SentenceEdit``.
    """

    def __init__(self, first: Proposer, second: Proposer) -> None:
        self.first = first
        self.second = second
        self._notices: list[str] = []
        self._caught = 0

    def check(self, probe: bool = False) -> None:
        """Checks both; a first one that only does not answer is warned of, not refused.

        Raises:
            InputError: the second cannot work, or the first is set up wrongly.
        """
        check_of(self.second, probe)
        check_of(self.first)
        try:
            check_of(self.first, probe)
        except InputError as error:
            name = name_of(self.second)
            warnings.warn(f"{name} proposes until this is fixed: {error}", stacklevel=2)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """The proposals of the first, or of the second."""
        try:
            return signed(self.first.propose(request), name_of(self.first))
        except Exception as error:
            self._caught += 1
            first, second = name_of(self.first), name_of(self.second)
            why = told_with_place(error)
            self._notices.append(f"{first} failed, {second} proposes instead: {why}")
        return signed(self.second.propose(request), name_of(self.second))

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Tells both."""
        teach(self.first, results)
        teach(self.second, results)

    def notices(self) -> Sequence[str]:
        """Failures of the first since the last time, and what either has to say."""
        own, self._notices = self._notices, []
        return [*own, *notices_of(self.first), *notices_of(self.second)]

    def failures_caught(self) -> int:
        """Failures of the first, and those that either has caught itself."""
        return self._caught + failures_caught_by(self.first) + failures_caught_by(self.second)

    def metrics(self) -> Mapping[str, float]:
        """The totals of both."""
        return {**metrics_of(self.second), **metrics_of(self.first)}

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """The price of the first: the second is hoped not to be needed."""
        return estimate_of(self.first, generations, count, parents)

    def state_dict(self) -> dict[str, JsonValue]:
        """The states of both, and the failures of the first."""
        return {
            "first": state_of(self.first),
            "second": state_of(self.second),
            "caught": self._caught,
        }

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``.

        Raises:
            StateError: it is not the state of a fallback.
        """
        try:
            caught = COUNT.validate_python(state.get("caught"))
        except ValidationError as error:
            raise StateError(f"the state of a fallback cannot be read: {error}") from error
        restore(self.first, state.get("first"))
        restore(self.second, state.get("second"))
        self._caught = caught
