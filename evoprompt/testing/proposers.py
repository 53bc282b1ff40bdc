"""The conformance suite of proposers."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence

from evoprompt.roles import (
    ProposalRequest,
    Proposer,
)
from evoprompt.testing.samples import candidate, request
from evoprompt.testing.suite import Suite, expect, no_global_randomness, same_state, through_json
from evoprompt.types import Proposal, VerificationResult

REQUESTS = {
    "an ordinary request": request(),
    "a request without failures": request(failed=0),
    "a request without history": request(history=0),
    "a request for one proposal": request(count=1),
    "a request for many proposals": request(count=12),
    "a request with several parents": request(parents=3),
}


class ProposerSuite(Suite[Proposer]):
    """What every proposer must keep, however it writes.

    Attributes:
        repeatable: whether the same request must bring the same proposals, drawn from the
            request's generator alone; set it to False for a proposer that asks an LLM.
        patience: seconds within which what is thought ahead must be ready.
    """

    repeatable: bool = True
    patience: float = 60.0

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

    def test_keeps_what_is_required(self) -> None:
        for name, asked in REQUESTS.items():
            for proposal in self.propose(asked):
                lost = [text for text in asked.required if text not in proposal.text]
                expect(not lost, f"{name}: {proposal.text!r} lost {', '.join(lost)}")

    def test_proposes_something_new(self) -> None:
        for name, asked in REQUESTS.items():
            known = {stats.candidate.text for stats in asked.parents}
            for proposal in self.propose(asked):
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

    def test_draws_only_from_the_generator_handed_in(self) -> None:
        if not self.repeatable:
            return
        proposer = self.build()
        with no_global_randomness():
            proposer.propose(request())

    def test_repeats_itself_from_the_seed(self) -> None:
        if not self.repeatable:
            return
        for name, asked in REQUESTS.items():
            expect(
                self.propose(asked) == self.propose(asked),
                f"{name}: asked again it proposed something else; take all randomness from rng",
            )

    def test_proposes_alike_however_often_it_proposed_before(self) -> None:
        if not self.repeatable:
            return
        used, fresh = self.build(), self.build()
        for seed in range(3):
            used.propose(request(seed=seed))
        same_state(used, fresh)
        expect(
            list(used.propose(request(seed=7))) == list(fresh.propose(request(seed=7))),
            "one that was used before proposed something else than a new one; take all randomness "
            "from rng, and keep in state_dict what it must remember",
        )

    def test_can_be_asked_again_and_again(self) -> None:
        proposer = self.build()
        for seed in range(4):
            proposals = proposer.propose(request(seed=seed))
            expect(
                all(isinstance(proposal, Proposal) for proposal in proposals),
                f"asked {seed + 1} times it returned {proposals!r}",
            )

    def test_continues_from_a_saved_state(self) -> None:
        proposer, resumed = self.build(), self.build()
        proposer.propose(request(seed=1))
        resumed.load_state_dict(through_json(proposer))
        if self.repeatable:
            expect(
                proposer.propose(request(seed=2)) == resumed.propose(request(seed=2)),
                "restored, it proposed something else",
            )

    def test_proposes_what_it_thought_ahead(self) -> None:
        proposer = self.build()
        if not proposer.anticipates:
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
                VerificationResult(candidate(1), 0.7, 0.1, 8, admitted=True),
                VerificationResult(candidate(2), None, None, 0, admitted=False, reason="unscored"),
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
