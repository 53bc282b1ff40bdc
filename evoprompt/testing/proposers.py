"""Conformance suite of proposers."""

from __future__ import annotations

import copy
import math
import re
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


def _contains(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Return whether the words of ``phrase`` stand in ``words``, one after the other."""
    starts = range(len(words) - len(phrase) + 1) if phrase else ()
    return any(list(words[start : start + len(phrase)]) == list(phrase) for start in starts)


class ProposerSuite(DrawingSuite[Proposer]):
    """Contract of every proposer, for any way of writing.

    Attributes:
        patience: seconds within which anticipated proposals must be ready.
    """

    patience: float = 60.0

    def answer(self, component: Proposer, seed: int) -> object:
        """Return the proposals of ``component``."""
        return list(component.propose(request(seed=seed)))

    def propose(self, sample: ProposalRequest) -> Sequence[Proposal]:
        """Return the proposals of a new proposer for a copy of ``sample``."""
        return self.build().propose(copy.deepcopy(sample))

    def test_returns_proposals_with_the_components_of_the_parent(self) -> None:
        for name, sample in REQUESTS.items():
            for proposal in self.propose(sample):
                expect(
                    isinstance(proposal, Proposal), f"{name}: it returned {proposal!r}, no Proposal"
                )
                required = set(sample.parents[0].candidate.components)
                expect(
                    set(proposal.components) == required
                    and all(isinstance(text, str) for text in proposal.components.values()),
                    f"{name}: components are {proposal.components!r}; required: a text for each "
                    f"of {sorted(required)}",
                )

    def test_has_an_idea_when_there_are_failures(self) -> None:
        expect(len(self.propose(request())) > 0, "it proposed nothing for an ordinary request")

    def test_writes_something_new_that_keeps_what_is_required(self) -> None:
        for name, sample in REQUESTS.items():
            parent_texts = {stats.candidate.text for stats in sample.parents}
            for proposal in self.propose(sample):
                missing = [text for text in sample.required if text not in proposal.text]
                expect(not missing, f"{name}: {proposal.text!r} lost {', '.join(missing)}")
                expect(
                    proposal.text not in parent_texts,
                    f"{name}: it proposed a parent again; leave out texts of request.parents",
                )

    def test_copies_no_question_with_its_answer(self) -> None:
        for name, sample in REQUESTS.items():
            questions = [failure.question for failure in sample.failures]
            for proposal in self.propose(sample):
                text = " ".join(proposal.text.split()).casefold()
                for question in questions:
                    asked = " ".join(question.text.split()).casefold()
                    remainder = re.findall(r"\w+", text.replace(asked, " "))
                    has_answer = any(
                        _contains(remainder, re.findall(r"\w+", answer.casefold()))
                        for answer in question.answers
                    )
                    expect(
                        asked not in text or not has_answer,
                        f"{name}: {proposal.text!r} holds the question {question.text!r} with its "
                        "answer; required: advice for any question; leave out texts of failures",
                    )

    def test_names_parents_it_was_given(self) -> None:
        for name, sample in REQUESTS.items():
            offered = {stats.candidate.id for stats in (*sample.parents, *sample.history)}
            for proposal in self.propose(sample):
                unknown = sorted(set(proposal.parents) - offered)
                expect(not unknown, f"{name}: it names parents that it was not given: {unknown}")

    def test_does_not_overwhelm(self) -> None:
        for name, sample in REQUESTS.items():
            count = len(self.propose(sample))
            expect(
                count <= 2 * sample.count + 1, f"{name}: asked for {sample.count}, it made {count}"
            )

    def test_changes_nothing_it_is_given(self) -> None:
        for name, sample in REQUESTS.items():
            copied = copy.deepcopy(sample)
            self.build().propose(copied)
            is_unchanged = (
                copied.parents == sample.parents
                and copied.failures == sample.failures
                and copied.history == sample.history
                and copied.required == sample.required
            )
            expect(is_unchanged, f"{name}: it changed the request; copy what you change")

    def test_proposes_what_it_anticipated(self) -> None:
        proposer = self.build()
        if not proposer.can_anticipate:
            return
        proposer.anticipate(request())
        start = time.monotonic()
        while not proposer.is_ready:
            waited = time.monotonic() - start
            expect(waited < self.patience, f"after {self.patience:g} s it is still not ready")
            time.sleep(0.01)
        expect(len(proposer.propose(request())) > 0, "it proposed nothing of what it anticipated")

    def test_accepts_results(self) -> None:
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
            list(proposer.notices()) == [],
            "it returns the same notices twice; forget them once returned",
        )
