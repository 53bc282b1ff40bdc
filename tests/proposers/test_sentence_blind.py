"""The controls make the edits of ``sentence-edit`` and do not use what the failures say."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from evoprompt.bank import SentenceBank
from evoprompt.errors import InputError
from evoprompt.plugins import build
from evoprompt.proposers.sentences import Ideas, SentenceBlind, SentenceEdit
from evoprompt.roles import BuildContext, ProposalRequest, Proposer
from evoprompt.testing import ProposerSuite, SampleTask
from evoprompt.testing.samples import question, trajectory
from evoprompt.types import Candidate, CandidateStats, Trajectory

BANK = SentenceBank(
    sentences={idea: (f"Do {idea}.",) for idea in "abcdefgh"},
    remedies={"wrong": ("a", "b", "c"), "malformed": ("d", "e"), "slow": ("f",)},
)
PARENT = Candidate("c0", {"instruction": "Begin."})
KINDS: tuple[Ideas, ...] = ("all", "remedies", "deranged")


def by_metrics(failure: Trajectory) -> Sequence[str]:
    return list(failure.metrics)


def failed(*diagnoses: str) -> Trajectory:
    return replace(trajectory(PARENT, question(0), 0.0), metrics=dict.fromkeys(diagnoses, 1.0))


def ideas(proposer: SentenceEdit, failures: Sequence[Trajectory], seed: int) -> list[str]:
    """The ideas of the one child, in the order they were chosen."""
    request = ProposalRequest(
        1, [CandidateStats(PARENT, 0.5, groups=4)], failures, [], random.Random(seed), 1, ()
    )
    (child,) = proposer.propose(request)
    return [treatment.split(" -> ")[1] for treatment in child.rationale.split("; ")]


class TestConformance(ProposerSuite):
    @pytest.fixture(params=KINDS, autouse=True)
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.ideas: Ideas = request.param

    def build(self) -> Proposer:
        task = SampleTask()
        assert task.bank is not None
        return SentenceBlind(task.bank, task.diagnose, ideas=self.ideas)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("all", set("abcdefgh")), ("remedies", set("abcdef")), ("deranged", set("def"))],
)
def test_ideas_come_from_where_they_are_said_to(kind: Ideas, expected: set[str]) -> None:
    blind = SentenceBlind(BANK, by_metrics, ideas=kind)
    first = {ideas(blind, [failed("wrong")], seed)[0] for seed in range(300)}
    assert first == expected


@pytest.mark.parametrize("kind", ["all", "remedies"])
def test_what_the_failures_say_changes_nothing(kind: Ideas) -> None:
    blind = SentenceBlind(BANK, by_metrics, ideas=kind)
    for seed in range(50):
        chosen = ideas(blind, [failed("wrong")], seed)
        assert chosen == ideas(blind, [failed("malformed"), failed("slow")], seed)


def test_the_number_of_edits_is_that_of_sentence_edit() -> None:
    rich = replace(BANK, remedies={"wrong": tuple("abcd"), "other": tuple("efgh")})
    reading = Counter(
        len(ideas(SentenceEdit(rich, by_metrics), [failed("wrong")], seed)) for seed in range(900)
    )
    assert set(reading) == {1, 2, 3}
    for kind in KINDS:
        blind = SentenceBlind(rich, by_metrics, ideas=kind)
        sizes = Counter(len(ideas(blind, [failed("wrong")], seed)) for seed in range(900))
        for size in reading:
            # Two frequencies of 900 draws each: 4.5 standard errors of their difference.
            assert sizes[size] / 900 == pytest.approx(reading[size] / 900, abs=0.1)


def test_without_a_failure_all_do_as_sentence_edit_does() -> None:
    reading = SentenceEdit(BANK, by_metrics)
    for kind in KINDS:
        blind = SentenceBlind(BANK, by_metrics, ideas=kind)
        for seed in range(20):
            assert ideas(blind, [], seed) == ideas(reading, [], seed)


class TestLeavingIdeasOut:
    def test_they_are_neither_sentences_nor_remedies(self) -> None:
        bank = BANK.without(["a", "f"])
        assert set(bank.sentences) == set("bcdegh")
        assert bank.remedies == {"wrong": ["b", "c"], "malformed": ["d", "e"], "slow": []}

    @pytest.mark.parametrize("left_out", [["z"], list("abcdefgh")])
    def test_an_unknown_idea_or_all_of_them_are_refused(self, left_out: list[str]) -> None:
        with pytest.raises(InputError, match="required: some of a, b"):
            BANK.without(left_out)

    def test_a_configuration_can_say_so(self) -> None:
        task = SampleTask()
        assert task.bank is not None
        idea = next(iter(task.bank.sentences))
        context = BuildContext(task)
        for name in ("sentence-edit", "sentence-blind", "sentence-random"):
            built = build("proposer", {"name": name, "without": [idea]}, context)
            assert idea not in built.bank.sentences  # type: ignore[attr-defined]
