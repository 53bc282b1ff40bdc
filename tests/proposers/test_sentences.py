"""Instructions come apart into sentences and go together again without loss."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.bank import SentenceBank
from evoprompt.proposers.sentences import Genome, SentenceProposer, Variation
from evoprompt.proposers.sentences import SentenceRandom as Random
from evoprompt.roles import ProposalRequest
from evoprompt.testing.samples import request
from evoprompt.types import Candidate, CandidateStats

FIXED = "Write <answer>it</answer>. Close every tag!"
BANK = SentenceBank(
    sentences={
        "check": ("Check the sum twice.", "Add once more. Then compare."),
        "split": ("Split large numbers.", "tens first, ones then"),
        "haste": ("Answer at once.",),
    },
    fixed=(FIXED,),
)
WORDINGS = [text for texts in BANK.sentences.values() for text in texts]
genomes = st.lists(st.sampled_from([*WORDINGS, "What is 1.5 miles?", "Be kind."]), max_size=6)


@pytest.fixture
def sentences() -> Random:
    return Random(BANK, most_sentences=3)


def instruction(text: str) -> Candidate:
    return Candidate("c0", {"instruction": text})


class TestTakeApart:
    @given(genome=genomes)
    def test_undoes_put_together(self, genome: list[str]) -> None:
        sentences = Random(BANK)
        assert sentences.take_apart(instruction(sentences.put_together(genome))) == genome

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Be kind. Twice!  Is it so? yes", ["Be kind.", "Twice!", "Is it so?", "yes"]),
            (f"\n Be kind.\n\n{FIXED} Answer at once.\n", ["Be kind.", "Answer at once."]),
            ("Use 1.5 miles. Never Answer at once.", ["Use 1.5 miles.", "Never Answer at once."]),
            ("tens first, ones then Be kind.", ["tens first, ones then", "Be kind."]),
            ("tens first, ones thenceforth. Yes.", ["tens first, ones thenceforth.", "Yes."]),
            (FIXED, []),
            ("", []),
        ],
    )
    def test_finds_bank_sentences_whole_and_others_by_their_ends(
        self, sentences: Random, text: str, expected: list[str]
    ) -> None:
        assert sentences.take_apart(instruction(text)) == expected

    def test_reads_the_instruction_among_several_components(self, sentences: Random) -> None:
        several = Candidate("c0", {"tool": "It adds.", "instruction": "Be kind."})
        assert sentences.take_apart(several) == ["Be kind."]
        other = Candidate("c0", {"system": "Be kind.", "tool": "It adds."})
        assert sentences.take_apart(other) == ["Be kind."]


class TestVariation:
    def test_every_wording_has_its_idea_and_foreign_ones_are_their_own(
        self, sentences: Random
    ) -> None:
        assert sentences.idea("Add once more. Then compare.") == "check"
        assert sentences.idea("Be kind.") == "Be kind."
        drawn = {sentences.wording("check", random.Random(seed)) for seed in range(20)}
        assert drawn == set(BANK.sentences["check"])

    def test_tidy_keeps_each_idea_once_and_no_more_than_fit(self, sentences: Random) -> None:
        genome = ["Be kind.", *WORDINGS]
        assert sentences.tidy(genome) == [
            "Be kind.",
            "Check the sum twice.",
            "Split large numbers.",
        ]

    @given(genome=genomes, sentence=st.sampled_from(WORDINGS), seed=st.integers(0, 20))
    def test_add_brings_the_idea_in_without_growing_over_the_limit(
        self, genome: list[str], sentence: str, seed: int
    ) -> None:
        sentences = Random(BANK, most_sentences=3)
        before = list(genome)
        start = sentences.tidy(genome)
        found = sentences.add(start, sentence, random.Random(seed))
        assert sentences.idea(sentence) in map(sentences.idea, found)
        assert len(found) <= 3
        assert len(set(start) - set(found)) <= 1
        assert genome == before

    @given(genome=genomes, seed=st.integers(0, 20))
    def test_drop_takes_one_sentence_out(self, genome: list[str], seed: int) -> None:
        found = Random(BANK).drop(genome, random.Random(seed))
        assert len(found) == max(len(genome) - 1, 0)
        left = list(genome)
        for sentence in found:
            left.remove(sentence)


class Scripted(SentenceProposer):
    """Says one text after another, after the sentences of the parent if so wished."""

    def __init__(self, texts: Iterable[str], after: bool = False) -> None:
        super().__init__(BANK)
        self.texts = iter(texts)
        self.after = after

    def vary(self, parent: Candidate, genome: Genome, request: ProposalRequest) -> Variation:
        kept = genome if self.after else []
        return [text for text in [*kept, next(self.texts)] if text], "why"


class TestProposals:
    def test_are_different_from_each_other_and_from_the_parents(self) -> None:
        texts = ["A.", "A.", "B.", "", "C.", *["A."] * 99]
        found = Scripted(texts).propose(request(count=4))
        assert [proposal.text for proposal in found] == [f"{FIXED} {x}." for x in "ABC"]
        assert {proposal.rationale for proposal in found} == {"why"}
        assert {proposal.parents for proposal in found} == {("c0",)}

    def test_leave_other_components_as_they_are(self) -> None:
        parent = Candidate("c0", {"tool": "It adds.", "instruction": "Be kind."})
        asked = replace(request(count=1), parents=[CandidateStats(parent, 0.5)])
        (found,) = Scripted(["A."], after=True).propose(asked)
        assert found.components == {"tool": "It adds.", "instruction": f"{FIXED} Be kind. A."}

    def test_come_from_all_parents(self) -> None:
        found = Scripted(f"Say {n}." for n in range(99)).propose(request(count=12, parents=3))
        assert {proposal.parents for proposal in found} == {("c0",), ("c1",), ("c2",)}


def test_a_limit_below_one_sentence_is_refused() -> None:
    with pytest.raises(ValueError, match="most_sentences is 0; required: at least 1"):
        Random(BANK, most_sentences=0)
