"""What became of the instructions of a training, read back from its events."""

from __future__ import annotations

from pathlib import Path

import pytest

from evoprompt.experiments.history import TrainingHistory, Weight
from evoprompt.experiments.report.document import outcome
from evoprompt.log.evaluation import MainMetric
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import (
    Evaluated,
    Event,
    Evolved,
    Excerpt,
    IncumbentChanged,
    Proposed,
    Pruned,
    QuestionsAssigned,
    RolloutSamples,
    Seeded,
    StepCompleted,
    Verified,
)
from evoprompt.support.errors import InputError

LOSS = MainMetric("loss", "loss", higher_is_better=False)


def told(step: int, weights: dict[str, float], reward: float | None = 0.5) -> StepCompleted:
    errors = {name: 0.05 for name in weights if name == "c1"}
    return StepCompleted(step, 8, 8, 0, reward, weights, {"calls": 2.0}, 7.0, errors)


def proposed(candidate: str, parent: str, step: int, rule: str = "") -> Proposed:
    texts = {"instruction": f"Text of {candidate}."}
    return Proposed(step, candidate, texts, (parent,), "p", "because", rule)


def shown(step: int, *names: str) -> RolloutSamples:
    return RolloutSamples(step, tuple(Excerpt(name, "2+2?", "4", 0.5, ()) for name in names))


def evaluated(step: int, candidate: str, value: float, split: str = "validation") -> Evaluated:
    return Evaluated(step, split, candidate, 40 * step, {"loss": value, "calls": 3}, {}, LOSS)


GENERATIONS: list[Event] = [
    Seeded(0, "c0", {"instruction": "Search."}),
    IncumbentChanged(0, "c0"),
    evaluated(0, "c0", 0.1),
    QuestionsAssigned(1, {"c0": 4}, 2),
    told(1, {"c0": 0.1}),
    proposed("c1", "c0", 1),
    proposed("c2", "c0", 1),
    proposed("", "c0", 1, rule="duplicate"),
    Verified(1, "c1", 1, 0.6, 0.1, 8, True),
    Verified(1, "c2", 1, 0.3, 0.1, 8, False, "too low"),
    shown(1, "c1", "c2"),
    Evolved(1, 1, ("c1",), ("c0", "c1"), 16),
    QuestionsAssigned(2, {"c0": 1, "c1": 3}, 2),
    told(2, {"c0": 0.1, "c1": 0.6}),
    Pruned(2, ("c0",), ("c1",)),
    proposed("c3", "c1", 2),
    Evolved(2, 1, ("c3",), ("c1", "c3"), 8, ""),
    Evolved(2, 0, (), ("c1", "c3"), 0, "the writer is down"),
    *(shown(step, "c1") for step in range(4, 10)),
    told(9, {"c1": 0.7, "c3": 0.9}, reward=None),
    evaluated(9, "c3", 0.8),
    evaluated(9, "c3", 0.2, "test"),
]


def history(events: list[Event], root: Path) -> TrainingHistory:
    log = EventLog(root / "events.jsonl")
    for event in events:
        log.append(event)
    return TrainingHistory.read(root / "events.jsonl")


def test_lives_begin_with_admission_and_end_with_pruning(tmp_path: Path) -> None:
    found = history(GENERATIONS, tmp_path)
    lives = {name: (life.born, life.died) for name, life in found.admitted_candidates.items()}
    assert lives == {"c0": (0, 2), "c1": (1, None), "c3": (2, None)}
    assert [entry.id for entry in found.members] == ["c1", "c3"]
    one = found.candidate("c1")
    assert (one.mean, one.rollouts, one.rationale) == (0.6, 6, "because")
    assert one.weights == [Weight(2, 0.6, 0.05), Weight(9, 0.7, 0.05)]
    assert [shown["step"] for shown in one.answers] == [1], "before it was admitted"
    assert [shown["step"] for shown in one.episodes] == [6, 7, 8, 9], "the last ones"
    with pytest.raises(InputError, match="no candidate 'c9'"):
        found.candidate("c9")


def test_proposals_that_never_lived_are_kept_with_the_reason(tmp_path: Path) -> None:
    found = history(GENERATIONS, tmp_path)
    outcomes = [(entry.id, outcome(entry)) for entry in found.proposals]
    refused, lived = ("", "refused"), [("c1", "active"), ("c2", "dropped")]
    assert outcomes == [*lived, refused, ("c3", "active")]
    assert [check["reason"] for check in found.candidate("c2").checks] == ["too low"]
    counts = [(one["proposed"], one["refused"]) for one in found.generations]
    assert counts == [(3, 1), (1, 0), (0, 0)]
    assert [one["failure"] for one in found.failures] == ["the writer is down"]


def test_who_was_tried_in_training_and_not_decided_is_undecided(tmp_path: Path) -> None:
    events = [*GENERATIONS[:4], proposed("c1", "c0", 1), proposed("c2", "c0", 1)]
    found = history(
        [*events, QuestionsAssigned(2, {"c0": 1, "c1": 3}, 2), told(2, {"c0": 0.1})], tmp_path
    )
    outcomes = [(entry.id, outcome(entry), entry.rollouts) for entry in found.proposals]
    assert outcomes == [("c1", "undecided", 6), ("c2", "not tried", 0)]


def test_steps_and_evaluations_are_its_curves(tmp_path: Path) -> None:
    found = history(GENERATIONS, tmp_path)
    assert [step.values.get("reward") for step in found.steps] == [0.5, 0.5, None]
    assert found.steps[0].values == {"reward": 0.5, "calls": 2.0, "instruction_length": 7.0}
    assert found.evaluations == [(0, 0.1), (360, 0.8)], "on validation"
    assert found.merit == -0.8, "the higher the better"
    assert [entry.id for entry in found.path()] == ["c0", "c1", "c3"]
    assert "c0" in found.statement


def test_a_training_that_has_only_begun_has_a_history(tmp_path: Path) -> None:
    found = history(GENERATIONS[:1], tmp_path)
    assert (found.step, found.evolved, found.merit, found.statement) == (0, False, None, "")
    assert [entry.id for entry in found.path()] == ["c0"]


def test_a_candidate_is_worth_its_weight_else_what_was_verified(tmp_path: Path) -> None:
    found = history(GENERATIONS[:12], tmp_path)
    assert [found.value_of(entry) for entry in found.candidates.values()] == [0.1, 0.6, 0.3]


def test_of_a_frozen_model_only_the_incumbent_was_measured_as_others_were(tmp_path: Path) -> None:
    trained = ("step_completed", "questions_assigned")
    found = history([one for one in GENERATIONS if one.kind not in trained], tmp_path)
    worths = {name: found.value_of(entry) for name, entry in found.candidates.items()}
    assert worths == {"c0": None, "c1": None, "c2": None, "c3": 0.8}
