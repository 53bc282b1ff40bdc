"""Instructions come apart into sentences, are varied, and go together again."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.components import BuildContext
from evoprompt.plugins import build
from evoprompt.proposers.bank import SentenceBank
from evoprompt.proposers.sentences import (
    SentenceBlind,
    SentenceEdit,
    SentenceProposer,
    SentenceRandom,
)
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.support.errors import InputError
from evoprompt.testing import SampleTask
from evoprompt.testing.samples import REQUIRED, question, request, trajectory
from evoprompt.types import Candidate, CandidateStats, Trajectory

FIXED = "Write <answer>it</answer>. Close every tag!"
BANK = SentenceBank(
    sentences={
        "check": ("Check the sum.", "Add once more. Then compare."),
        "split": ("Split large numbers.", "tens first, ones then"),
        "tags": ("Close the tags.",),
        "noise": ("Be polite.", "Stay calm."),
    },
    remedies={"wrong": ("check", "split"), "malformed": ("tags",), "hopeless": ()},
    fixed=(FIXED,),
)
LETTERS = SentenceBank(
    sentences={idea: (f"Do {idea}.",) for idea in "abcdefgh"},
    remedies={"wrong": ("a", "b", "c"), "malformed": ("d", "e"), "slow": ("f",)},
)
WORDINGS = [text for texts in BANK.sentences.values() for text in texts]
PARENT = Candidate("c0", {"instruction": f"{FIXED} Search first."})
MATE = Candidate("c1", {"instruction": f"{FIXED} Guess. Be quick. Use a list."})
genomes = st.lists(st.sampled_from([*WORDINGS, "What is 1.5 miles?", "Be kind."]), max_size=6)


def by_metrics(failure: Trajectory) -> Sequence[str]:
    """The diagnoses are the names of the metrics."""
    return list(failure.metrics)


def failed(*diagnoses: str, who: Candidate = PARENT) -> Trajectory:
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


def treatments(
    proposer: Proposer,
    *failures: Trajectory,
    draws: int = 400,
    parents: Sequence[Candidate] = (PARENT,),
) -> list[list[str]]:
    """The diagnoses and ideas of the one child, from one seed after another."""
    found = []
    for seed in range(draws):
        (child,) = proposer.propose(asked(*failures, seed=seed, parents=parents))
        found.append(child.rationale.split("; "))
    return found


def first(found: Sequence[Sequence[str]]) -> Counter[str]:
    return Counter(one[0] for one in found)


def about(count: int, draws: int, share: float) -> bool:
    """Whether so many of so many draws are five standard errors or less from what is expected."""
    return abs(count / draws - share) < 5 * math.sqrt(share * (1 - share) / draws)


class TestGenomes:
    @given(genome=genomes)
    def test_taking_apart_undoes_putting_together(self, genome: list[str]) -> None:
        sentences = SentenceRandom(BANK)
        instruction = Candidate("c0", {"instruction": sentences.join_sentences(genome)})
        assert sentences.split_sentences(instruction) == genome

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Be kind. Twice!  Is it so? yes", ["Be kind.", "Twice!", "Is it so?", "yes"]),
            (f"\n Be kind.\n\n{FIXED} Check the sum.\n", ["Be kind.", "Check the sum."]),
            ("Use 1.5 miles. Never Check the sum.", ["Use 1.5 miles.", "Never Check the sum."]),
            ("tens first, ones thenceforth. Yes.", ["tens first, ones thenceforth.", "Yes."]),
            (FIXED, []),
        ],
    )
    def test_bank_sentences_are_found_whole_and_others_by_their_ends(
        self, text: str, expected: list[str]
    ) -> None:
        several = Candidate("c0", {"tool": "It adds.", "instruction": text})
        assert SentenceRandom(BANK).split_sentences(several) == expected

    @given(genome=genomes, sentence=st.sampled_from(WORDINGS), seed=st.integers(0, 20))
    def test_a_sentence_is_added_without_growing_over_the_limit(
        self, genome: list[str], sentence: str, seed: int
    ) -> None:
        sentences = SentenceRandom(BANK, most_sentences=3)
        start = sentences.tidy(genome)
        ideas = [sentences.idea(one) for one in start]
        assert len(set(ideas)) == len(ideas) <= 3
        found = sentences.add(start, sentence, random.Random(seed))
        assert sentences.idea(sentence) in map(sentences.idea, found)
        assert len(found) <= 3
        assert len(set(start) - set(found)) <= 1
        assert len(sentences.drop(start, random.Random(seed))) == max(len(start) - 1, 0)


class TestTreatment:
    EDIT = SentenceEdit(BANK, by_metrics)

    def test_one_to_three_remedies_alike_often(self) -> None:
        found = treatments(self.EDIT, failed("wrong", "malformed"))
        sizes = Counter(map(len, found))
        assert set(sizes) == {1, 2, 3}
        assert all(about(count, 400, 1 / 3) for count in sizes.values())

    def test_a_diagnosis_is_answered_with_its_remedies_the_more_the_more_frequent(self) -> None:
        counts = first(treatments(self.EDIT, failed("wrong")))
        assert set(counts) == {"wrong -> check", "wrong -> split"}
        assert about(counts["wrong -> check"], 400, 1 / 2)
        failures = [failed("malformed"), failed("malformed"), failed("malformed", "wrong")]
        counts = first(treatments(self.EDIT, *failures))
        assert about(counts["malformed -> tags"], 400, 3 / 4)

    def test_the_remedy_is_added_and_in_some_children_an_old_sentence_goes(self) -> None:
        texts = Counter(
            self.EDIT.propose(asked(failed("malformed"), seed=seed))[0].text for seed in range(400)
        )
        swapped, added = f"{FIXED} Close the tags.", f"{FIXED} Search first. Close the tags."
        assert set(texts) == {swapped, added}
        # A quarter loses one of two sentences; those that lose the remedy again are no children.
        assert about(texts[swapped], 400, (1 / 8) / (1 - 1 / 8))

    def test_what_the_parent_says_already_is_not_prescribed_again(self) -> None:
        parent = Candidate("c0", {"instruction": f"{FIXED} Check the sum. Search first."})
        found = treatments(self.EDIT, failed("wrong", who=parent), draws=20, parents=[parent])
        assert set(first(found)) == {"wrong -> split"}

    @pytest.mark.parametrize("diagnoses", [[], ["hopeless"], ["unheard of"]])
    def test_without_a_remedy_something_is_tried_at_random(self, diagnoses: list[str]) -> None:
        counts = first(treatments(self.EDIT, failed(*diagnoses)))
        assert {name.removeprefix("no diagnosis -> ") for name in counts} == set(BANK.sentences)

    def test_the_parent_s_own_failures_come_before_those_of_others(self) -> None:
        others = [failed("malformed", who=MATE)] * 9
        counts = first(treatments(self.EDIT, *others, failed("wrong"), draws=40))
        assert all(name.startswith("wrong") for name in counts)
        assert set(first(treatments(self.EDIT, *others, draws=40))) == {"malformed -> tags"}

    @pytest.mark.parametrize("chance", [0.0, 1.0])
    def test_crossover_mixes_sentences_of_two_parents(self, chance: float) -> None:
        proposer = SentenceEdit(BANK, by_metrics)
        proposer.crossover = chance
        children = [
            child.text
            for seed in range(60)
            for child in proposer.propose(
                asked(failed("malformed"), seed=seed, parents=[PARENT, MATE])
            )
            if child.parents == ("c0",)
        ]
        mates = [text for text in children if any(s in text for s in ("Guess.", "Be quick."))]
        assert any("Search first." in text for text in mates) == (chance == 1.0)
        assert bool(mates) == (chance == 1.0)

    @given(
        count=st.integers(1, 9),
        seed=st.integers(0, 99),
        most=st.integers(1, 4),
        diagnoses=st.lists(st.sampled_from(["wrong", "malformed", "hopeless"]), max_size=5),
        parents=st.sampled_from([[PARENT], [PARENT, MATE]]),
    )
    def test_every_child_keeps_what_is_fixed_and_stays_within_the_limit(
        self, count: int, seed: int, most: int, diagnoses: list[str], parents: list[Candidate]
    ) -> None:
        proposer = SentenceEdit(BANK, by_metrics, most)
        found = proposer.propose(
            asked(*map(failed, diagnoses), count=count, seed=seed, parents=parents)
        )
        assert len({proposal.text for proposal in found}) == len(found) <= count
        for proposal in found:
            assert proposal.text.startswith(FIXED)
            kept = proposer.split_sentences(Candidate("c9", proposal.components))
            assert 1 <= len(kept) <= max(most, 3)
            assert len({proposer.idea(sentence) for sentence in kept}) == len(kept)


class TestControls:
    def test_ideas_come_from_the_whole_bank_whatever_failed(self) -> None:
        blind = SentenceBlind(LETTERS, by_metrics)
        found = treatments(blind, failed("wrong"), draws=300)
        assert {one[0].split(" -> ")[1] for one in found} == set("abcdefgh")
        assert found == treatments(blind, failed("malformed"), failed("slow"), draws=300)

    def test_the_edits_have_the_size_of_those_of_sentence_edit(self) -> None:
        rich = replace(LETTERS, remedies={"wrong": tuple("abcd"), "other": tuple("efgh")})
        blind = SentenceBlind(rich, by_metrics)
        sizes = Counter(len(one) for one in treatments(blind, failed("wrong"), draws=900))
        assert all(about(sizes[size], 900, 1 / 3) for size in (1, 2, 3))
        reading = SentenceEdit(LETTERS, by_metrics)
        alike = SentenceBlind(LETTERS, by_metrics)
        assert treatments(alike, draws=20) == treatments(reading, draws=20)

    def test_random_adds_replaces_and_drops_in_fixed_shares(self) -> None:
        sentences = SentenceRandom(BANK)
        parent = Candidate("c0", {"instruction": f"{FIXED} Check the sum. Be polite."})
        lengths: Counter[int] = Counter()
        for seed in range(600):
            (found,) = sentences.propose(asked(seed=seed, parents=[parent]))
            reads = asked(failed("wrong"), seed=seed, parents=[parent])
            assert sentences.propose(reads) == [found]
            lengths[len(sentences.split_sentences(Candidate("c9", found.components)))] += 1
        # What equals the parent is drawn again, so additions of an idea present count for nothing.
        assert set(lengths) == {1, 2, 3}
        assert about(lengths[1], 600, 0.4)
        assert about(lengths[3], 600, 0.4)

    def test_nobody_has_an_idea_where_the_instruction_cannot_be_varied(self) -> None:
        bank = SentenceBank(sentences={"only": ("Be polite.",)}, fixed=(FIXED,))
        parent = Candidate("c0", {"instruction": f"{FIXED} Be polite."})
        assert SentenceRandom(bank).propose(asked(parents=[parent])) == []


def test_proposals_differ_come_from_all_parents_and_leave_other_components() -> None:
    for proposer in (SentenceEdit(BANK, by_metrics), SentenceRandom(BANK)):
        found = proposer.propose(request(count=12, parents=3))
        assert len({proposal.text for proposal in found}) == len(found) == 12
        assert {proposal.parents for proposal in found} == {("c0",), ("c1",), ("c2",)}
        parent = Candidate("c0", {"tool": "It adds.", "instruction": "Be kind."})
        (one,) = proposer.propose(asked(parents=[parent]))
        assert one.components["tool"] == "It adds."


class TestLeavingIdeasOut:
    def test_they_are_neither_sentences_nor_remedies(self) -> None:
        bank = LETTERS.without(["a", "f"])
        assert set(bank.sentences) == set("bcdegh")
        assert bank.remedies == {"wrong": ["b", "c"], "malformed": ["d", "e"], "slow": []}

    @pytest.mark.parametrize("left_out", [["z"], list("abcdefgh")])
    def test_an_unknown_idea_or_all_of_them_are_refused(self, left_out: list[str]) -> None:
        with pytest.raises(InputError, match="required: some of a, b"):
            LETTERS.without(left_out)

    @pytest.mark.parametrize("name", ["sentence-edit", "sentence-blind", "sentence-random"])
    def test_a_configuration_can_say_so(self, name: str) -> None:
        built = build("proposer", {"name": name, "without": ["haste"]}, BuildContext(SampleTask()))
        assert isinstance(built, SentenceProposer)
        assert "haste" not in built.bank.sentences


def test_the_remedy_for_a_missing_bank_is_python_where_python_builds_the_proposer() -> None:
    with pytest.raises(InputError, match="there is no task") as refused:
        build("proposer", {"name": "sentence-edit"})
    assert '{"name": "reflection", "lm": {"model": "openai/gpt-5-mini"}}' in str(refused.value)
    assert "proposer=None" in str(refused.value)
