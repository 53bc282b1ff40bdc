from __future__ import annotations

from typing import Any

from evoprompt.experiments.report.history import TrialHistory, read_histories
from evoprompt.experiments.report.records import Weight


def seeded(candidate: str = "c0", text: str = "Search.") -> dict[str, Any]:
    return {
        "event": "seeded",
        "step": 0,
        "candidate": candidate,
        "components": {"instruction": text},
    }


def proposed(candidate: str, parents: list[str], step: int, rule: str = "") -> dict[str, Any]:
    return {
        "event": "proposed",
        "step": step,
        "candidate": candidate,
        "parents": parents,
        "components": {"instruction": f"Text of {candidate}."},
        "proposer": "p",
        "rationale": "because",
        "rule": rule,
        "reason": "",
    }


def verified(candidate: str, mean: float, step: int, parent: bool = False) -> dict[str, Any]:
    return {
        "event": "verified",
        "step": step,
        "candidate": candidate,
        "mean": mean,
        "parent": parent,
    }


def evolved(admitted: list[str], population: list[str], step: int) -> dict[str, Any]:
    return {"event": "evolved", "step": step, "admitted": admitted, "population": population}


def told(step: int, weights: dict[str, float], reward: float | None = 0.5) -> dict[str, Any]:
    return {
        "event": "told",
        "step": step,
        "reward": reward,
        "weights": weights,
        "metrics": {"tool_calls": 2.0},
        "instruction_length": 7.0,
        "rollouts": 40 * step,
    }


def pruned(kept: list[str], step: int) -> dict[str, Any]:
    return {"event": "pruned", "step": step, "kept": kept, "dropped": []}


def evaluated(candidate: str, value: float, step: int) -> dict[str, Any]:
    return {
        "event": "evaluated",
        "step": step,
        "candidate": candidate,
        "rollouts": 40 * step,
        "split": "validation",
        "metrics": {"solved": value},
        "headline": {"name": "solved", "label": "share solved", "higher_is_better": False},
    }


GENERATIONS = [
    seeded(),
    evaluated("c0", 0.1, 0),
    told(1, {"c0": 0.1}),
    proposed("c1", ["c0"], 1),
    proposed("c2", ["c0"], 1),
    proposed("", ["c0"], 1, rule="duplicate"),
    verified("c0", 0.2, 1, parent=True),
    verified("c1", 0.6, 1),
    verified("c2", 0.3, 1),
    evolved(["c1"], ["c0", "c1"], 1),
    told(2, {"c0": 0.1, "c1": 0.6}),
    pruned(["c1"], 2),
    proposed("c3", ["c1"], 2),
    evolved(["c3"], ["c1", "c3"], 2),
    told(3, {"c1": 0.7, "c3": 0.9}, reward=None),
    evaluated("c3", 0.8, 3),
]


def history(events: list[dict[str, Any]], arm: str = "coevolve") -> TrialHistory:
    (found,) = read_histories({"arm": arm, "seed": 0, **event} for event in events)
    return found


def test_lives_begin_with_admission_and_end_with_pruning() -> None:
    lives = history(GENERATIONS).lives
    assert {name: (life.born, life.died) for name, life in lives.items()} == {
        "c0": (0, 2),
        "c1": (1, None),
        "c3": (2, None),
    }
    assert lives["c1"].verified == 0.6
    assert lives["c1"].weights == [Weight(2, 0.6, None), Weight(3, 0.7, None)]
    assert lives["c1"].rationale == "because"


def test_a_candidate_never_drawn_has_its_verified_weight() -> None:
    lives = history([*GENERATIONS[:10]]).lives
    assert lives["c1"].weight == 0.6


def test_a_life_holds_what_the_task_said_last() -> None:
    remarks = [{"c1": {"reward": 0.1, "text": text}} for text in ("expected A", "expected B")]
    events = [
        {**told(step, {"c1": 0.7}), "feedback": remark} for step, remark in enumerate(remarks, 4)
    ]
    lives = history([*GENERATIONS, *events]).lives
    assert lives["c1"].remark == (5, 0.1, "expected B")
    assert lives["c0"].remark is None


def test_a_life_holds_its_last_episodes_and_the_errors_of_its_weights() -> None:
    shown = [
        {"event": "shown", "step": step, "excerpts": [{"candidate": name, "reward": 0.5}]}
        for step in range(4, 10)
        for name in ("c1", "c2")  # the latter was turned away
    ]
    known = {**told(10, {"c1": 0.7}), "stderrs": {"c1": 0.05}}
    life = history([*GENERATIONS, *shown, known]).lives["c1"]
    assert [one.step for one in life.episodes] == [6, 7, 8, 9]
    assert life.weights[-1] == Weight(10, 0.7, 0.05)


def test_what_is_shown_before_admission_are_answers_of_the_verification() -> None:
    shown = [
        {"event": "shown", "step": 1, "excerpts": [{"candidate": name, "reward": 0.5}]}
        for name in ("c1", "c2")
    ]
    found = history([*GENERATIONS[:9], *shown, *GENERATIONS[9:]])
    assert [one.step for one in found.lives["c1"].answers] == [1]
    assert not found.lives["c1"].episodes
    (turned_away,) = (one for one in found.proposals if one.candidate == "c2")
    assert [one.excerpt["reward"] for one in turned_away.answers] == [0.5]


def test_the_winning_path_goes_from_the_seed_to_the_best() -> None:
    assert [life.candidate for life in history(GENERATIONS).path()] == ["c0", "c1", "c3"]


def test_proposals_that_never_lived_are_counted() -> None:
    found = history(GENERATIONS)
    assert (found.proposed, found.refused) == (4, 1)


def test_a_step_without_a_scored_rollout_has_no_reward() -> None:
    steps = history(GENERATIONS).steps
    assert [step.values.get("reward") for step in steps] == [0.5, 0.5, None]
    assert steps[0].values["tool_calls"] == 2.0
    assert steps[0].values["instruction_length"] == 7.0


def test_trials_are_told_apart() -> None:
    events = [{"arm": arm, "seed": seed, **seeded()} for arm in "ab" for seed in (0, 1)]
    assert [(h.arm, h.seed) for h in read_histories(events)] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
    ]


def test_the_merit_is_that_of_the_last_evaluation_the_higher_the_better() -> None:
    assert history(GENERATIONS).merit == -0.8
    assert history([seeded()]).merit is None


def test_a_run_that_has_only_begun_has_a_history() -> None:
    found = history([seeded()])
    assert found.last_step == 0
    assert not found.evolved
    assert found.path() == []
