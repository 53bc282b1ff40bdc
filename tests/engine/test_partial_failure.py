"""Rollouts of a verification that fail are counted, told, and warned of where they are many."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pytest
from contract_runs import RandomWords

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.support.errors import EvopromptWarning
from evoprompt.types import Assignment, EvolveReport, Question, Trajectory, Turn


class Failing:
    """A policy some of whose rollouts have no reward.

    Args:
        every: how many are made for each that fails.
        feedback: what is said of these.
    """

    def __init__(self, every: int, feedback: str = "") -> None:
        self.every = every
        self.feedback = feedback
        self.made = 0
        self.first = ""

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        return [self.one(assignment) for assignment in assignments]

    def one(self, asked: Assignment) -> Trajectory:
        self.made += 1
        if self.made % self.every:
            return Trajectory(asked, 0.5)
        self.first = self.first or f"{asked.candidate.id} got no reward on question "
        return Trajectory(asked, None, feedback=self.feedback)


def verified(policy: Failing) -> tuple[EvolveReport, list[str], list[str]]:
    """What came of a first generation with extra rollouts, its notices and its warnings."""
    engine = Engine(["be brief"], proposer=RandomWords(), config=EngineConfig(accept="not-worse"))
    for step in range(15):
        asked = engine.ask([Question(f"q{step}", "Why?")], 2)
        engine.tell([Trajectory(one, 0.25, turn) for one in asked for turn in range(2)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = engine.evolve(policy)
    assert {one.category for one in caught} <= {EvopromptWarning}
    notices = [event["message"] for event in engine.log if event["event"] == "notice"]
    found = [one for one in notices if "of the rollouts of the verification" in one]
    return report, found, [str(one.message) for one in caught]


@pytest.mark.parametrize("feedback", ["", "SandboxError: no such table"])
def test_many_are_warned_of_with_the_reason_of_the_first(feedback: str) -> None:
    policy = Failing(every=10, feedback=feedback)
    report, notices, warned = verified(policy)
    failed, of = report.failures.failed, report.failures.of
    assert (of, failed) == (policy.made, policy.made // 10)
    assert of == report.rollouts
    assert failed > 10
    (told,) = notices
    assert warned == notices
    assert told.startswith(
        f"of the rollouts of the verification at step 15 failed: {failed} of {of}, first because "
        f"{policy.first}'q"
    )
    assert feedback in told


def test_a_single_one_is_told_and_not_warned_of() -> None:
    report, notices, warned = verified(Failing(every=100))
    assert report.failures.failed == 1
    assert [f"failed: 1 of {report.rollouts}, first because c" in one for one in notices] == [True]
    assert warned == []


class Silent(Failing):
    """A policy some of whose answers are empty, and rewarded as their task rewards it."""

    def one(self, asked: Assignment) -> Trajectory:
        self.made += 1
        if self.made % self.every:
            return Trajectory(asked, 0.0, turns=(Turn("no idea", ""),))
        return Trajectory(asked, self.reward, turns=(Turn(" ", ""),))

    reward = 0.0


def test_an_empty_answer_counts_unless_it_is_rewarded() -> None:
    policy = Silent(every=10)
    report, (told,), _ = verified(policy)
    assert report.failures.failed == policy.made // 10
    assert "first because the answer was empty, of " in told
    policy = Silent(every=10)
    policy.reward = 1.0
    report, notices, _ = verified(policy)
    assert (report.failures.failed, notices) == (0, [])
