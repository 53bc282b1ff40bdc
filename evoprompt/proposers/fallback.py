"""Fallback: another proposer for the times when the first one fails."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from pydantic import JsonValue, TypeAdapter, ValidationError

from evoprompt.errors import InputError, StateError
from evoprompt.proposers.wrapper import Wrapper, signed
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.text import told_with_place
from evoprompt.types import Proposal

_COUNT = TypeAdapter(int)


class Fallback(Wrapper):
    """Asks ``first``; when that raises, says so and asks ``second``.

    Every generation begins with ``first`` again: an outage may end.

    Args:
        first: the proposer of choice, such as one that asks a language model.
        second: one that cannot fail for the same reason, such as ``SentenceEdit``.
    """

    def __init__(self, first: Proposer, second: Proposer) -> None:
        super().__init__(first, second)
        self.first = first
        self.second = second
        self._notices: list[str] = []
        self._caught = 0

    def check(self, probe: bool = False) -> None:
        """Checks both; a first one that only does not answer is warned of, not refused.

        Raises:
            InputError: the second cannot work, or the first is set up wrongly.
        """
        self.second.check(probe)
        self.first.check()
        try:
            self.first.check(probe)
        except InputError as error:
            warnings.warn(f"{self.second.name} proposes until this is fixed: {error}", stacklevel=2)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """The proposals of the first, or of the second."""
        try:
            return signed(self.first.propose(request), self.first.name)
        except Exception as error:
            self._caught += 1
            first, second = self.first.name, self.second.name
            why = told_with_place(error)
            self._notices.append(f"{first} failed, {second} proposes instead: {why}")
        return signed(self.second.propose(request), self.second.name)

    def notices(self) -> Sequence[str]:
        """Failures of the first since the last time, and what either has to say."""
        own, self._notices = self._notices, []
        return [*own, *super().notices()]

    @property
    def failures_caught(self) -> int:
        """Failures of the first, and those that either has caught itself."""
        return self._caught + super().failures_caught

    def state_dict(self) -> dict[str, JsonValue]:
        """The states of both, and the failures of the first."""
        return {**super().state_dict(), "caught": self._caught}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``.

        Raises:
            StateError: it is not the state of a fallback.
        """
        try:
            caught = _COUNT.validate_python(state.get("caught"))
        except ValidationError as error:
            raise StateError(f"the state of a fallback cannot be read: {error}") from error
        super().load_state_dict(state)
        self._caught = caught
