"""Failures are read, and treated with what the bank names against them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.bank import SentenceBank
from evoprompt.proposers.sentences import SentenceEdit
from evoprompt.roles import ProposalRequest
from evoprompt.testing.samples import REQUIRED, question, request, trajectory
from evoprompt.types import Candidate, CandidateStats, Trajectory

FIXED = "Write <answer>it</answer>."
BANK = SentenceBank(
    sentences={
        "check": ("Check the sum.", "Add once more."),
        "split": ("Split large numbers.",),
        "tags": ("Close the tags.",),
        "noise": ("Be polite.", "Stay calm.", "Do your best."),
    },
    remedies={"wrong": ("check", "split"), "malformed": ("tags",), "hopeless": ()},
    fixed=(FIXED,),
)
PARENT = Candidate("c0", {"instruction": f"{FIXED} Search first."})
MATE = Candidate("c1", {"instruction": f"{FIXED} Guess. Be quick. Use a list."})


def by_metrics(failure: Trajectory) -> Sequence[str]:
    """The diagnoses are the names of the metrics."""
    return list(failure.metrics)


def failed(diagnoses: Sequence[str], who: Candidate = PARENT) -> Trajectory:
    found = trajectory(who, question(0), 0.0)
    return replace(found, metrics=dict.fromkeys(diagnoses, 1.0))


def asked(
    *failures: Trajectory,
    count: int = 1,
    seed: int = 0,
    parents: Sequence[Candidate] = (PARENT,),
) -> ProposalRequest:
    candidate_stats = [CandidateStats(parent, 0.5, groups=4) for parent in parents]
    return ProposalRequest(count, candidate_stats, failures, [], random.Random(seed), 1, REQUIRED)


def first_ideas(proposer: SentenceEdit, *failures: Trajectory, draws: int = 400) -> Counter[str]:
    """How often each idea is the first remedy of the one proposal."""
    counts: Counter[str] = Counter()
    for seed in range(draws):
        (found,) = proposer.propose(asked(*failures, seed=seed))
        counts[found.rationale.split("; ")[0]] += 1
    return counts


class TestTreatment:
    @pytest.fixture
    def proposer(self) -> SentenceEdit:
        return SentenceEdit(BANK, by_metrics)

    def test_a_diagnosis_is_answered_with_one_of_its_remedies(self, proposer: SentenceEdit) -> None:
        counts = first_ideas(proposer, failed(["wrong"]))
        assert set(counts) == {"wrong -> check", "wrong -> split"}
        assert abs(counts["wrong -> check"] - 200) < 5 * math.sqrt(400 / 4)

    def test_frequent_diagnoses_are_treated_more_often(self, proposer: SentenceEdit) -> None:
        failures = [failed(["malformed"]), failed(["malformed"]), failed(["malformed", "wrong"])]
        counts = first_ideas(proposer, *failures)
        share = counts["malformed -> tags"] / 400
        assert abs(share - 3 / 4) < 5 * math.sqrt(3 / 16 / 400)

    def test_the_remedy_is_added_and_in_some_children_an_old_sentence_goes(
        self, proposer: SentenceEdit
    ) -> None:
        texts = Counter(
            proposer.propose(asked(failed(["malformed"]), seed=seed))[0].text for seed in range(400)
        )
        swapped, added = f"{FIXED} Close the tags.", f"{FIXED} Search first. Close the tags."
        assert set(texts) == {swapped, added}
        # A quarter loses one of two sentences; those that lose the remedy again are no children.
        share = (1 / 8) / (1 - 1 / 8)
        assert abs(texts[swapped] / 400 - share) < 5 * math.sqrt(share * (1 - share) / 400)

    def test_what_the_parent_says_already_is_not_prescribed_again(
        self, proposer: SentenceEdit
    ) -> None:
        parent = Candidate("c0", {"instruction": f"{FIXED} Add once more. Search first."})
        for seed in range(20):
            request_ = asked(failed(["wrong"], parent), seed=seed, parents=[parent])
            (found,) = proposer.propose(request_)
            assert "wrong -> split" in found.rationale
            assert "Check the sum." not in found.text

    def test_one_to_three_remedies_are_tried_alike_often(self, proposer: SentenceEdit) -> None:
        failure = failed(["wrong", "malformed"])
        treated = Counter(
            len(proposer.propose(asked(failure, seed=seed))[0].rationale.split("; "))
            for seed in range(300)
        )
        assert set(treated) == {1, 2, 3}
        assert all(abs(count - 100) < 5 * math.sqrt(300 * 2 / 9) for count in treated.values())

    @pytest.mark.parametrize("diagnoses", [[], ["hopeless"], ["unheard of"]])
    def test_without_a_remedy_something_is_tried_at_random(
        self, proposer: SentenceEdit, diagnoses: list[str]
    ) -> None:
        counts = first_ideas(proposer, failed(diagnoses))
        assert {name.removeprefix("no diagnosis -> ") for name in counts} == set(BANK.sentences)

    def test_the_parent_s_own_failures_come_before_those_of_others(
        self, proposer: SentenceEdit
    ) -> None:
        failures = [failed(["malformed"], MATE)] * 9 + [failed(["wrong"])]
        assert all(name.startswith("wrong") for name in first_ideas(proposer, *failures, draws=40))

    def test_those_of_others_are_read_where_the_parent_has_none(
        self, proposer: SentenceEdit
    ) -> None:
        counts = first_ideas(proposer, failed(["malformed"], MATE), draws=40)
        assert set(counts) == {"malformed -> tags"}


class TestCrossover:
    def children(self, chance: float) -> list[str]:
        proposer = SentenceEdit(BANK, by_metrics, crossover=chance)
        failure = failed(["malformed"])
        parents = [PARENT, MATE]
        return [
            found.text
            for seed in range(60)
            for found in proposer.propose(asked(failure, seed=seed, parents=parents))
            if found.parents == ("c0",)
        ]

    def test_mixes_sentences_of_two_parents(self) -> None:
        own, mates = ["Search first."], ["Guess.", "Be quick.", "Use a list."]
        mixed = [
            text
            for text in self.children(1.0)
            if any(s in text for s in own) and any(s in text for s in mates)
        ]
        assert mixed

    def test_does_not_happen_at_a_chance_of_0(self) -> None:
        assert not any("Guess." in text or "Be quick." in text for text in self.children(0.0))

    def test_needs_a_second_parent(self) -> None:
        proposer = SentenceEdit(BANK, by_metrics, crossover=1.0)
        (found,) = proposer.propose(asked(failed(["malformed"])))
        assert found.parents == ("c0",)


@given(
    count=st.integers(1, 9),
    seed=st.integers(0, 99),
    most=st.integers(1, 4),
    diagnoses=st.lists(st.sampled_from(["wrong", "malformed", "hopeless"]), max_size=5),
    parents=st.sampled_from([[PARENT], [PARENT, MATE]]),
)
def test_every_child_keeps_what_is_fixed_and_stays_within_the_limit(
    count: int, seed: int, most: int, diagnoses: list[str], parents: list[Candidate]
) -> None:
    proposer = SentenceEdit(BANK, by_metrics, most)
    found = proposer.propose(
        asked(*(failed([name]) for name in diagnoses), count=count, seed=seed, parents=parents)
    )
    assert len(found) <= count
    for proposal in found:
        assert proposal.text.startswith(FIXED)
        kept = proposer.take_apart(Candidate("c9", proposal.components))
        assert 1 <= len(kept) <= max(most, 3)
        assert len({proposer.idea(sentence) for sentence in kept}) == len(kept)


def test_many_are_proposed_when_asked_for_many() -> None:
    found = SentenceEdit(BANK, by_metrics).propose(request(count=12))
    assert len({proposal.text for proposal in found}) == len(found) == 12
