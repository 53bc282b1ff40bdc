"""The sentences, and what a failure shows."""

from __future__ import annotations

import random

import pytest
from evoprompt_gym.bank import IN_TAGS, REMEDIES, diagnose
from evoprompt_gym.settings import GymSettings
from evoprompt_gym.task import ReasoningGym

from evoprompt.plugins import build
from evoprompt.roles import BuildContext, ProposalRequest
from evoprompt.types import Assignment, Candidate, CandidateStats, Question, Trajectory, Turn


def failed(said: str, reward: float | None = 0.0) -> Trajectory:
    asked = Assignment("a", Question("q", "1 + 1 =", ("2",)), Candidate.of("Be brief."), 1, "g")
    return Trajectory(asked, reward, turns=(Turn(said),))


@pytest.mark.parametrize(
    ("said", "reward", "tags", "found"),
    [
        ("It is 2.", 0.0, True, ["no tags"]),
        ("<answer>3</answer>", 0.0, True, ["wrong"]),
        ("<answer>2.</answer>", 0.5, True, ["nearly"]),
        ("3", 0.0, False, ["wrong"]),
        ("Well, if one adds the one to the other one, 2.", 0.1, False, ["wordy", "nearly"]),
        ("2", 1.0, False, []),
        ("2", None, False, []),
    ],
)
def test_failures_are_diagnosed(
    said: str, reward: float | None, tags: bool, found: list[str]
) -> None:
    assert list(diagnose(failed(said, reward), tags)) == found
    assert set(found) <= set(REMEDIES)


@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("name", ["sentence-edit", "sentence-blind"])
def test_the_proposers_without_a_language_model_write_for_it(name: str, tags: bool) -> None:
    task = ReasoningGym(
        GymSettings.model_validate(
            {"dataset": "chain_sum", "train": 4, "validation": 2, "test": 2, "tags": tags}
        )
    )
    proposer = build("proposer", {"name": name}, BuildContext(task))
    parent = CandidateStats(Candidate.of(task.seed_instructions[0]), 0.1)
    request = ProposalRequest(3, [parent], [failed("It is 3.")], [], random.Random(0), step=1)
    written = [proposal.components["instruction"] for proposal in proposer.propose(request)]
    assert len(set(written)) == 3
    for text in written:
        assert text.count(IN_TAGS) == int(tags)
