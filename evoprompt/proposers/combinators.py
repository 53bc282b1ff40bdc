"""Proposers that wrap further proposers, and a proposer that never proposes anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from pydantic import BaseModel, JsonValue

from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.support.calls import describe
from evoprompt.support.errors import InputError, warn
from evoprompt.support.text import format_error_with_place
from evoprompt.types import Estimate, Proposal, VerificationResult

MAX_PROPOSALS = 1_000
"""Most proposals that are read of an answer to one request; a generator may have no end."""


class _Wrapped(BaseModel):
    """State of a wrapper."""

    inner: list[dict[str, JsonValue]]
    caught: int


class NoProposer(Proposer):
    """Never proposes anything; an engine with it keeps its seeds (a static instruction)."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Return an empty list."""
        del request
        return []


class Wrapper(Proposer):
    """Proposer that delegates to inner proposers, and counts the failures that it catches.

    Args:
        inner: the inner proposers, at least one; the first has priority.
    """

    def __init__(self, *inner: Proposer) -> None:
        self.inner = inner
        self._notices: list[str] = []
        self._caught = 0

    def check(self, probe: bool = False) -> None:
        """Check all inner proposers."""
        for proposer in self.inner:
            proposer.check(probe)

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Pass the results to all inner proposers."""
        for proposer in self.inner:
            proposer.feedback(results)

    def notices(self) -> Sequence[str]:
        """Return new messages of this proposer and of all inner ones."""
        notices, self._notices = self._notices, []
        return [*notices, *(text for proposer in self.inner for text in proposer.notices())]

    @property
    def failures_caught(self) -> int:
        """Return the number of failures caught here and by the inner proposers."""
        return self._caught + sum(proposer.failures_caught for proposer in self.inner)

    def metrics(self) -> Mapping[str, float]:
        """Return the totals of all inner proposers."""
        totals: dict[str, float] = {}
        for proposer in reversed(self.inner):
            totals.update(proposer.metrics())
        return totals

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """Return the estimate of the first inner proposer."""
        return self.inner[0].estimate(generations, count, parents)

    def estimate_request(self, request: ProposalRequest, is_bound: bool = False) -> Estimate:
        """Return the estimate of the first inner proposer."""
        return self.inner[0].estimate_request(request, is_bound)

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the states of all inner proposers, and the number of caught failures."""
        return _Wrapped(
            inner=[proposer.state_dict() for proposer in self.inner], caught=self._caught
        ).model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``.

        Raises:
            ValueError: the state has a different number of proposers.
        """
        saved = _Wrapped.model_validate(dict(state))
        for proposer, inner_state in zip(self.inner, saved.inner, strict=True):
            proposer.load_state_dict(inner_state)
        self._caught = saved.caught


def signed(proposals: Iterable[Proposal], name: str) -> list[Proposal]:
    """Return ``proposals`` with ``name`` as the proposer of those without a proposer.

    Of an endless iterable, only the first ones are returned.

    Raises:
        InputError: an item is not a proposal.
    """
    items = (
        list(islice(proposals, MAX_PROPOSALS)) if isinstance(proposals, Iterable) else [proposals]
    )
    for item in items:
        if not isinstance(item, Proposal):
            raise InputError(
                f"it returned {item!r:.60}, which is no Proposal; required: a list of them; write "
                "[Proposal.of(text, request.parents[0].candidate)]"
            )
    return [replace(proposal, proposer=proposal.proposer or name) for proposal in items]


def note_cut(proposals: Sequence[Proposal], proposer: Proposer) -> str:
    """Return a notice if only the first of the proposals of one request were read."""
    if len(proposals) < MAX_PROPOSALS:
        return ""
    return (
        f"the proposer {describe(proposer)} proposed {MAX_PROPOSALS:,} texts or more for one "
        f"request, of which the first {MAX_PROPOSALS:,} are read; required: about as many as "
        "request.count; return a list, or end the generator"
    )


class Fallback(Wrapper):
    """Proposer that uses ``second`` if ``first`` raises, and reports that.

    Every generation begins with ``first`` again, as an outage may have ended.

    Args:
        first: the preferred proposer, such as one that uses a language model.
        second: a proposer that cannot fail for the same reason, such as ``SentenceEdit``.
    """

    def __init__(self, first: Proposer, second: Proposer) -> None:
        super().__init__(first, second)
        self.first = first
        self.second = second

    def check(self, probe: bool = False) -> None:
        """Check both proposers; warn of a first one that only does not respond.

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
        """Return the proposals of the first proposer, or of the second."""
        try:
            return signed(self.first.propose(request), self.first.name)
        except (Exception, SystemExit) as error:
            self._caught += 1
            first, second = self.first.name, self.second.name
            reason = format_error_with_place(error)
            self._notices.append(f"{first} failed, {second} proposes instead: {reason}")
        return signed(self.second.propose(request), self.second.name)
