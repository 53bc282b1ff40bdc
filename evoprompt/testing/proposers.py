"""The conformance suite of proposers."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence

from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.testing.samples import candidate, request
from evoprompt.testing.suite import DrawingSuite, expect
from evoprompt.types import Proposal, VerificationResult

REQUESTS = {
    "an ordinary request": request(),
    "a request without failures": request(failed=0),
    "a request without history": request(history=0),
    "a request for one proposal": request(count=1),
    "a request for many proposals": request(count=12),
    "a request with several parents": request(parents=3),
}


class ProposerSuite(DrawingSuite[Proposer]):
    """What every proposer must keep, however it writes.

    Attributes:
        patience: seconds within which what is thought ahead must be ready.
    """

    patience: float = 60.0

    def answer(self, component: Proposer, seed: int) -> object:
        """What ``component`` proposes."""
        return list(component.propose(request(seed=seed)))

    def propose(self, asked: ProposalRequest) -> Sequence[Proposal]:
        """What a new proposer answers to a copy of ``asked``."""
        return self.build().propose(copy.deepcopy(asked))

    def test_returns_proposals_with_the_components_of_the_parent(self) -> None:
        for name, asked in REQUESTS.items():
            for proposal in self.propose(asked):
                expect(
                    isinstance(proposal, Proposal), f"{name}: it returned {proposal!r}, no Proposal"
                )
                wanted = set(asked.parents[0].candidate.components)
                expect(
                    set(proposal.components) == wanted
                    and all(isinstance(text, str) for text in proposal.components.values()),
                    f"{name}: components are {proposal.components!r}; required: a text for each "
                    f"of {sorted(wanted)}",
                )

    def test_has_an_idea_when_there_are_failures(self) -> None:
        expect(len(self.propose(request())) > 0, "it proposed nothing for an ordinary request")

    def test_writes_something_new_that_keeps_what_is_required(self) -> None:
        for name, asked in REQUESTS.items():
            known = {stats.candidate.text for stats in asked.parents}
            for proposal in self.propose(asked):
                lost = [text for text in asked.required if text not in proposal.text]
                expect(not lost, f"{name}: {proposal.text!r} lost {', '.join(lost)}")
                expect(
                    proposal.text not in known,
                    f"{name}: it proposed a parent again; leave out texts of request.parents",
                )

    def test_names_parents_it_was_given(self) -> None:
        for name, asked in REQUESTS.items():
            given = {stats.candidate.id for stats in (*asked.parents, *asked.history)}
            for proposal in self.propose(asked):
                unknown = sorted(set(proposal.parents) - given)
                expect(not unknown, f"{name}: it names parents that it was not given: {unknown}")

    def test_does_not_overwhelm(self) -> None:
        for name, asked in REQUESTS.items():
            count = len(self.propose(asked))
            expect(
                count <= 2 * asked.count + 1, f"{name}: asked for {asked.count}, it made {count}"
            )

    def test_changes_nothing_it_is_given(self) -> None:
        for name, asked in REQUESTS.items():
            given = copy.deepcopy(asked)
            self.build().propose(given)
            same = (
                given.parents == asked.parents
                and given.failures == asked.failures
                and given.history == asked.history
                and given.required == asked.required
            )
            expect(same, f"{name}: it changed the request; copy what you change")

    def test_proposes_what_it_thought_ahead(self) -> None:
        proposer = self.build()
        if not proposer.can_anticipate:
            return
        proposer.anticipate(request())
        begun = time.monotonic()
        while not proposer.ready:
            waited = time.monotonic() - begun
            expect(waited < self.patience, f"after {self.patience:g} s it is still not ready")
            time.sleep(0.01)
        expect(len(proposer.propose(request())) > 0, "it proposed nothing of what it thought")

    def test_takes_in_results(self) -> None:
        proposer = self.build()
        proposer.propose(request())
        proposer.feedback(
            [
                VerificationResult(candidate(1), 0.7, 0.1, 8, "admitted"),
                VerificationResult(candidate(2), None, None, 0, "rejected", "unscored"),
            ]
        )
        proposer.propose(request())

    def test_reports_in_words_and_finite_numbers(self) -> None:
        proposer = self.build()
        proposer.propose(request())
        for notice in proposer.notices():
            expect(isinstance(notice, str), f"the notice {notice!r} is no text")
        for name, value in proposer.metrics().items():
            expect(math.isfinite(value), f"the metric {name} is {value}, not finite")
        expect(
            list(proposer.notices()) == [], "it tells the same notices twice; forget them once told"
        )
