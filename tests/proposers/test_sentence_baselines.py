"""The controls vary the same sentences, each without reading failures."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.bank import SentenceBank
from evoprompt.proposers.sentences import (
    SentenceHistory,
    SentenceParaphrase,
    SentenceRandom,
)
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.testing.samples import failures, request
from evoprompt.types import Candidate, CandidateStats

FIXED = "Write <answer>it</answer>."
BANK = SentenceBank(
    sentences={
        "check": ("Check the sum.", "Add once more."),
        "split": ("Split large numbers.", "Tens first."),
        "haste": ("Answer at once.", "Do not think."),
        "noise": ("Be polite.", "Stay calm."),
    },
    fixed=(FIXED,),
)
BUILD: list[Callable[[SentenceBank], Proposer]] = [
    SentenceRandom,
    SentenceParaphrase,
    SentenceHistory,
]


def candidate(number: int, *sentences: str) -> Candidate:
    return Candidate(f"c{number}", {"instruction": " ".join([FIXED, *sentences])})


def asked(
    parent: Candidate, count: int = 1, seed: int = 0, history: Sequence[CandidateStats] = ()
) -> ProposalRequest:
    candidate_stats = [CandidateStats(parent, 0.5, groups=4)]
    return ProposalRequest(
        count, candidate_stats, failures(parent, 4), history, random.Random(seed)
    )


def ideas(text: str) -> list[str]:
    sentences = SentenceRandom(BANK)
    return [sentences.idea(s) for s in sentences.take_apart(Candidate("c9", {"instruction": text}))]


class TestRandom:
    PARENT = candidate(0, "Check the sum.", "Be polite.")

    def test_adds_replaces_and_drops_in_fixed_shares(self) -> None:
        lengths: Counter[int] = Counter()
        for seed in range(600):
            (found,) = SentenceRandom(BANK).propose(asked(self.PARENT, seed=seed))
            lengths[len(ideas(found.text))] += 1
        # What equals the parent is drawn again: of the additions, 1/4 each hits an idea present.
        assert set(lengths) == {1, 2, 3}
        assert 0.15 < lengths[1] / 600 < 0.4
        assert 0.3 < lengths[3] / 600 < 0.6

    def test_does_not_look_at_failures(self) -> None:
        parent = self.PARENT
        blind = ProposalRequest(3, [CandidateStats(parent, 0.5)], [], [], random.Random(1))
        assert SentenceRandom(BANK).propose(blind) == SentenceRandom(BANK).propose(
            asked(parent, count=3, seed=1)
        )


class TestParaphrase:
    @given(
        chosen=st.lists(st.sampled_from(sorted(BANK.sentences)), unique=True, min_size=1),
        seed=st.integers(0, 50),
    )
    def test_says_the_same_in_other_words_or_order(self, chosen: list[str], seed: int) -> None:
        parent = candidate(0, *(BANK.sentences[idea][0] for idea in chosen))
        found = SentenceParaphrase(BANK).propose(asked(parent, count=3, seed=seed))
        assert found
        for proposal in found:
            assert sorted(ideas(proposal.text)) == sorted(chosen)
            assert proposal.text.startswith(FIXED)

    def test_leaves_sentences_that_the_bank_does_not_know(self) -> None:
        parent = candidate(0, "Search first.", "Check the sum.")
        for proposal in SentenceParaphrase(BANK).propose(asked(parent, count=3)):
            assert "Search first." in proposal.text

    def test_proposes_no_more_than_there_are_wordings(self) -> None:
        found = SentenceParaphrase(BANK).propose(asked(candidate(0, "Be polite."), count=9))
        assert [proposal.text for proposal in found] == [f"{FIXED} Stay calm."]


class TestHistory:
    PARENT = candidate(0, "Be polite.")

    def added(self, history: Sequence[CandidateStats], draws: int = 400) -> Counter[str]:
        """Which idea the parent gains, how often."""
        counts: Counter[str] = Counter()
        for seed in range(draws):
            (found,) = SentenceHistory(BANK).propose(asked(self.PARENT, seed=seed, history=history))
            counts.update(idea for idea in ideas(found.text) if idea != "noise")
        return counts

    def test_favours_ideas_of_what_scored_well(self) -> None:
        history = [
            CandidateStats(candidate(1, "Check the sum."), 0.9, groups=4),
            CandidateStats(candidate(2, "Do not think."), 0.1, groups=4),
        ]
        counts = self.added(history)
        assert counts["check"] > 2 * counts["haste"]
        assert counts["haste"] > 0

    def test_worth_is_a_mean_over_the_instructions_that_hold_the_idea(self) -> None:
        history = [
            CandidateStats(candidate(1, "Check the sum."), 0.9, groups=4),
            CandidateStats(candidate(2, "Add once more."), 0.1, groups=4),
            CandidateStats(candidate(3, "Do not think."), 0.5, groups=4),
        ]
        counts = self.added(history)
        spread = math.sqrt(sum(counts.values()))
        assert abs(counts["check"] - counts["haste"]) < 3 * spread

    def test_what_was_never_measured_says_nothing(self) -> None:
        history = [CandidateStats(candidate(1, "Check the sum."), 0.9, groups=0)]
        counts = self.added(history)
        assert abs(counts["check"] - counts["split"]) < 3 * math.sqrt(sum(counts.values()))

    def test_drops_the_weakest_sentence_of_a_long_instruction(self) -> None:
        parent = candidate(0, "Check the sum.", "Tens first.", "Do not think.")
        history = [
            CandidateStats(candidate(1, "Check the sum.", "Tens first."), 0.9, groups=4),
            CandidateStats(candidate(2, "Do not think."), 0.1, groups=4),
        ]
        lost: Counter[str] = Counter()
        for seed in range(100):
            found = SentenceHistory(BANK).propose(asked(parent, seed=seed, history=history))
            for proposal in found:
                lost.update({"check", "split", "haste"} - set(ideas(proposal.text)))
        assert set(lost) == {"haste"}


@pytest.mark.parametrize("build", BUILD)
def test_none_has_an_idea_where_the_instruction_cannot_be_varied(
    build: Callable[[SentenceBank], Proposer],
) -> None:
    bank = SentenceBank(sentences={"only": ("Be polite.",)}, fixed=(FIXED,))
    assert build(bank).propose(asked(candidate(0, "Be polite."))) == []


def test_more_may_be_asked_for_than_there_is() -> None:
    for build in BUILD:
        assert len(build(BANK).propose(request(count=40))) <= 40
