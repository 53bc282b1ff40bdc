from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoprompt.errors import InputError
from evoprompt.runs.summary import SeedSummary, Spread, Summary, curve, rollouts_to, to_json


def result(seed: int = 0, test_em: float = 0.5, reached: int | None = 800) -> SeedSummary:
    return SeedSummary(
        seed=seed,
        test_em=test_em,
        test_em_by_hops={"1": 0.9, "2": 0.5, "3": 0.1},
        tool_calls=1.5,
        rollouts=1000,
        rollouts_to_target=reached,
        train_seconds=10.0,
        engine_seconds=0.1,
        verify_seconds=1.0,
        best_instruction="Search first.",
        curve=[(0, 0.1), (800, 0.85)],
    )


def test_the_file_has_the_keys_that_were_promised() -> None:
    written = json.loads(to_json(Summary.of({"static": [result()], "coevolve": []})))
    assert list(written["arms"]) == ["static"]
    (seed,) = written["arms"]["static"]["seeds"]
    assert seed == {
        "seed": 0,
        "test_em": 0.5,
        "test_em_by_hops": {"1": 0.9, "2": 0.5, "3": 0.1},
        "tool_calls": 1.5,
        "rollouts": 1000,
        "rollouts_to_em_0.8": 800,
        "train_seconds": 10.0,
        "engine_seconds": 0.1,
        "verify_seconds": 1.0,
        "best_instruction": "Search first.",
        "curve": [[0, 0.1], [800, 0.85]],
        "fruitless": "",
    }


def test_reads_back_what_it_wrote(tmp_path: Path) -> None:
    summary = Summary.of({"static": [result(0), result(1, reached=None)]})
    (tmp_path / "summary.json").write_text(to_json(summary), encoding="utf-8")
    assert to_json(Summary.read(tmp_path / "summary.json")) == to_json(summary)


def test_a_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"arms": {"a": 3}}', encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read as a summary"):
        Summary.read(tmp_path / "summary.json")


def test_an_arm_states_mean_and_spread_of_its_seeds() -> None:
    arm = Summary.of({"a": [result(0, 0.4), result(1, 0.6)]}).arms["a"]
    assert arm.test_em.mean == pytest.approx(0.5)
    assert arm.test_em.std == pytest.approx(0.02**0.5)
    assert Spread.of([0.3]).std is None


def test_the_curve_holds_validation_only() -> None:
    events = [
        {"event": "told", "rollouts": 40},
        {
            "event": "evaluated",
            "split": "validation",
            "rollouts": 40,
            "metrics": {"exact_match": 0.25},
        },
        {"event": "evaluated", "split": "test", "rollouts": 40, "metrics": {"exact_match": 0.9}},
    ]
    assert curve(events) == [(40, 0.25)]


@pytest.mark.parametrize(
    ("points", "reached"),
    [([], None), ([(0, 0.79)], None), ([(0, 0.1), (9, 0.8)], 9), ([(3, 0.9), (5, 0.1)], 3)],
)
def test_the_price_of_the_target_is_the_first_point_that_reaches_it(
    points: list[tuple[int, float]], reached: int | None
) -> None:
    assert rollouts_to(points) == reached
