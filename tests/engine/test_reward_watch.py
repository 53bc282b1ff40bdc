"""Whatever range rewards have, failures, temperature and warnings follow from it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest

from evoprompt import EvopromptWarning
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.log.summaries import CONSTANT_REWARDS, STRETCH
from evoprompt.proposers.sentences import SentenceEdit
from evoprompt.testing import FakeTrainer, SampleTask, ScriptedPolicy
from evoprompt.testing.samples import question
from evoprompt.types import Assignment, Trajectory

QUESTIONS = [question(number) for number in range(4)]
RANGES = [(-1.0, 1.0), (0.0, 128.0)]


def build(**numbers: Any) -> Engine:
    task = SampleTask()
    assert task.bank is not None
    config = EngineConfig(prune_every=3, verify_questions=3, **numbers)
    proposer = SentenceEdit(task.bank, task.diagnose)
    return Engine(task.seed_instructions, proposer=proposer, config=config, required=task.required)


def share(assignment: Assignment) -> float:
    """0, 1/4 or 3/4, by instruction and question."""
    helped = "check" in assignment.candidate.text.lower()
    odd = int(assignment.question.id[1:]) % 2
    return 0.75 if helped and odd else 0.25 * odd


def own_share(assignment: Assignment) -> float:
    """Near ``share``, and another for each instruction: between equal weights rounding decides."""
    return share(assignment) + sum(map(ord, assignment.candidate.text)) % 61 / 1024


@pytest.mark.parametrize(
    ("numbers", "number_of_questions", "steps"),
    [
        ({}, 24, 40),
        ({"accept": "not-worse", "evolve_every": 4}, 4, 14),
        ({"preset": "inspo", "evolve_every": 4}, 4, 14),
    ],
)
@pytest.mark.parametrize("range_", RANGES)
def test_a_run_is_the_same_in_any_range(
    range_: tuple[float, float], numbers: dict[str, Any], number_of_questions: int, steps: int
) -> None:
    low, high = range_
    questions = [question(number) for number in range(number_of_questions)]

    def choices(engine: Engine, policy: ScriptedPolicy) -> list[tuple[Any, ...]]:
        FakeTrainer(policy, questions).train(engine, steps)
        return [
            (
                e["event"],
                e.get("draws"),
                e.get("candidates"),
                e.get("admitted"),
                e.get("components"),
            )
            for e in engine.log
        ]

    scaled = ScriptedPolicy(lambda a: low + own_share(a) * (high - low))
    engine = build(**numbers, reward_range=range_)
    engine.requests.proposer = _Diagnosing(engine)
    before = build(**numbers)
    before.requests.proposer = _Diagnosing(before)
    usual = choices(before, ScriptedPolicy(own_share))
    assert choices(engine, scaled) == usual
    assert any(event in ("evolved", "verified") and admitted for event, _, _, admitted, _ in usual)


class _Diagnosing(SentenceEdit):
    """Sees a wrong sum in every failure, whatever its reward."""

    def __init__(self, engine: Engine) -> None:
        bank = SampleTask.bank
        assert bank is not None
        super().__init__(bank, lambda trajectory: ["wrong sum"])


def test_the_weight_zero_of_the_paper_is_the_lowest_reward() -> None:
    engine = Engine(["A.", "B."], config=EngineConfig(preset="inspo", reward_range=(-1, 1)))
    first = [a for a in engine.ask(QUESTIONS * 4, 1) if a.candidate.id == "c0"]
    engine.tell(ScriptedPolicy(lambda assignment: -0.5)(first))
    assert [stats.weight for stats in engine.candidate_stats()] == [-0.5, -1.0]
    assert engine.best.id == "c0"


@pytest.mark.parametrize("given", [(1, 0), (0, 0), (0, float("inf")), (float("nan"), 1)])
def test_an_impossible_range_is_refused(given: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"reward_range is .*; required: two finite numbers"):
        EngineConfig(reward_range=given)


def told(engine: Engine, rewards: Sequence[float]) -> list[str]:
    """What is warned of when steps earn so much."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for reward in rewards:
            engine.tell([Trajectory(a, reward) for a in engine.ask(QUESTIONS, 1)])
    messages = [str(warning.message) for warning in caught]
    assert {warning.category for warning in caught} <= {EvopromptWarning}
    noticed = [e["message"] for e in engine.log if e["event"] == "notice"]
    assert noticed[len(noticed) - len(messages) :] == messages
    return messages


@pytest.mark.parametrize(
    ("reward", "words"), [(0.0, "all trajectories are"), (1.0, "no trajectory is")]
)
def test_steps_of_nothing_else_are_told_once_a_stretch(reward: float, words: str) -> None:
    engine = build(evolve_until=0)
    (message,) = told(engine, [reward] * (2 * STRETCH))
    assert message.startswith(f"in each of the last {STRETCH} steps up to step {STRETCH}, {words}")
    assert told(engine, [1 - reward]) == []
    assert len(told(engine, [reward] * STRETCH)) == 1


def test_equal_rewards_are_told_once_though_they_are_neither_failures_nor_few() -> None:
    engine = build(evolve_until=0)
    steps = -(-CONSTANT_REWARDS // len(QUESTIONS))
    assert told(engine, [0.3] * (STRETCH - 1)) == []
    messages = told(engine, [0.3] * (2 * steps))
    (message,) = [text for text in messages if text.startswith("all of the last")]
    assert "are 0.3: neither the policy nor an instruction" in message
    assert [text for text in told(engine, [0.4, 0.3] * steps) if text.startswith("all")] == []


def test_rewards_outside_of_the_range_are_told_once() -> None:
    engine = build(evolve_until=0)
    (message,) = told(engine, [0.5, 1.0 + 1e-9, 40.0, 0.0, 97.0])
    assert message.startswith("rewards of step 3 go from 40 to 40, reward_range is [0, 1]: ")


def test_the_metric_of_the_best_is_its_own_weight_and_not_the_highest() -> None:
    engine = Engine(["Note 0.", "Note 1."], config=EngineConfig(evolve_until=0))
    assignments = engine.ask([question(number) for number in range(8)], 1)
    engine.tell([Trajectory(one, float(one.candidate.id == "c1")) for one in assignments])
    weights = {stats.candidate.id: stats.weight for stats in engine.candidate_stats()}
    assert engine.best.id == "c0"
    assert engine.metrics()["best_weight"] == weights["c0"] < weights["c1"]
