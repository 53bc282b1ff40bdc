"""Proposers around other proposers, and the one that never proposes anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from pydantic import BaseModel, JsonValue

from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.support.errors import InputError, warn
from evoprompt.support.text import format_error_with_place
from evoprompt.types import Estimate, Proposal, VerificationResult

_MOST = 1_000  # proposals of one request; a generator may have no end


class _Wrapped(BaseModel):
    """State of a wrapper."""

    inner: list[dict[str, JsonValue]]
    caught: int


class NoProposer(Proposer):
    """Never proposes anything; an engine with it keeps its seeds (a static instruction)."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """An empty list."""
        del request
        return []


class Wrapper(Proposer):
    """Passes on to the proposers inside what is not asked of itself, and counts what it catches.

    Args:
        inner: the proposers, the first of which counts most; at least one.
    """

    def __init__(self, *inner: Proposer) -> None:
        self.inner = inner
        self._notices: list[str] = []
        self._caught = 0

    def check(self, probe: bool = False) -> None:
        """Checks all."""
        for one in self.inner:
            one.check(probe)

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Tells all."""
        for one in self.inner:
            one.feedback(results)

    def notices(self) -> Sequence[str]:
        """What was noted since the last time, and what any of them has to say."""
        own, self._notices = self._notices, []
        return [*own, *(text for one in self.inner for text in one.notices())]

    @property
    def failures_caught(self) -> int:
        """Failures of them that were not passed on, and those that they have caught themselves."""
        return self._caught + sum(one.failures_caught for one in self.inner)

    def metrics(self) -> Mapping[str, float]:
        """The totals of all."""
        return {name: n for one in reversed(self.inner) for name, n in one.metrics().items()}

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """The cost of the first."""
        return self.inner[0].estimate(generations, count, parents)

    def state_dict(self) -> dict[str, JsonValue]:
        """The states of all, and how many failures were caught."""
        return _Wrapped(
            inner=[one.state_dict() for one in self.inner], caught=self._caught
        ).model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``.

        Raises:
            ValueError: it is not the state of so many proposers.
        """
        saved = _Wrapped.model_validate(dict(state))
        for one, mine in zip(self.inner, saved.inner, strict=True):
            one.load_state_dict(mine)
        self._caught = saved.caught


def signed(proposals: Iterable[Proposal], name: str) -> list[Proposal]:
    """``proposals``, the unsigned ones signed with ``name``; the first ones if there is no end.

    Raises:
        InputError: they are something else.
    """
    found = list(islice(proposals, _MOST)) if isinstance(proposals, Iterable) else [proposals]
    for one in found:
        if not isinstance(one, Proposal):
            raise InputError(
                f"it returned {one!r:.60}, which is no Proposal; required: a list of them; write "
                "[Proposal.of(text, request.parents[0].candidate)]"
            )
    return [replace(one, proposer=one.proposer or name) for one in found]


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
            warn(f"{self.second.name} proposes until this is fixed: {error}")

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """The proposals of the first, or of the second."""
        try:
            return signed(self.first.propose(request), self.first.name)
        except Exception as error:
            self._caught += 1
            first, second = self.first.name, self.second.name
            why = format_error_with_place(error)
            self._notices.append(f"{first} failed, {second} proposes instead: {why}")
        return signed(self.second.propose(request), self.second.name)
