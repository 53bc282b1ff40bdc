from __future__ import annotations

import json

import pytest

from evoprompt.experiments.summary import SeedSummary, Summary, rollouts_to, to_json
from evoprompt.log.evaluation import Evaluation, MainMetric, Spread

SOLVED = MainMetric("solved", "share solved")


def result(seed: int = 0, value: float = 0.5, reached: int | None = 800) -> SeedSummary:
    return SeedSummary(
        seed=seed,
        main_metric=SOLVED,
        test=Evaluation(
            value=value, by_kind={"easy": 0.9, "hard": 0.1}, metrics={"tool_calls": 1.5}
        ),
        rollouts=1000,
        rollouts_to_target=reached,
        train_seconds=10.0,
        best={"instruction": "Search first."},
        curve=[(0, 0.1), (800, 0.85)],
    )


def test_the_file_has_the_keys_that_were_promised() -> None:
    text = to_json(Summary.of({"static": [result()], "coevolve": []}, 0.8))
    assert to_json(Summary.model_validate_json(text)) == text
    written = json.loads(text)
    main_metric = {"name": "solved", "label": "share solved", "higher_is_better": True}
    assert {key: written[key] for key in written if key != "arms"} == {
        "main_metric": main_metric,
        "target": 0.8,
    }
    assert list(written["arms"]) == ["static"]
    (seed,) = written["arms"]["static"]["seeds"]
    assert seed == {
        "seed": 0,
        "main_metric": main_metric,
        "test": {
            "value": 0.5,
            "by_kind": {"easy": 0.9, "hard": 0.1},
            "metrics": {"tool_calls": 1.5},
            "failures": {"failed": 0, "of": 0, "first": ""},
        },
        "rollouts": 1000,
        "rollouts_to_target": 800,
        "train_seconds": 10.0,
        "best": {"instruction": "Search first."},
        "curve": [[0, 0.1], [800, 0.85]],
        "failure_reason": "",
        "tested_after": None,
    }


def test_what_only_some_seeds_measured_has_a_name_all_the_same() -> None:
    bare = result(1).model_copy(update={"test": Evaluation(value=0.4, by_kind={"new": 0.4})})
    summary = Summary.of({"a": [bare], "b": [result()]})
    assert (summary.kinds, summary.metrics) == (["easy", "hard", "new"], ["tool_calls"])


def test_an_arm_states_mean_and_spread_of_its_seeds() -> None:
    arm = Summary.of({"a": [result(0, 0.4), result(1, 0.6)]}).arms["a"]
    assert arm.test.mean == pytest.approx(0.5)
    assert arm.test.std == pytest.approx(0.02**0.5)
    assert Spread.of([0.3]).std is None


@pytest.mark.parametrize(
    ("points", "reached"),
    [([], None), ([(0, 0.79)], None), ([(0, 0.1), (9, 0.8)], 9), ([(3, 0.9), (5, 0.1)], 3)],
)
def test_the_price_of_the_target_is_the_first_point_that_reaches_it(
    points: list[tuple[int, float]], reached: int | None
) -> None:
    assert rollouts_to(0.8, points, SOLVED) == reached
    loss = MainMetric("loss", "loss", higher_is_better=False)
    assert rollouts_to(-0.8, [(x, -y) for x, y in points], loss) == reached
    assert rollouts_to(None, points, SOLVED) is None
