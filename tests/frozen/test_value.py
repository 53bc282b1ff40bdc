"""The value is not flattered by the choice; a testset is asked of the best alone."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from optimizing import Writes, learn

import evoprompt
from evoprompt import EvopromptWarning, InputError, OptimizeOptions, Question
from evoprompt.optimizer.result import read_result

TRAIN = [f"train {n}" for n in range(40)]
VALIDATION = [f"validation {n}" for n in range(40)]
TEST = [f"test {n}" for n in range(50)]


def lucky(instruction: str, example: str) -> str:
    return "right" if zlib.crc32(f"{instruction}/{example}".encode()) % 10 < 4 else "wrong"


def run(program: Any = lucky, **given: Any) -> evoprompt.OptimizationResult:
    """Texts differ in nothing that counts."""
    proposer = Writes(lambda request: f"Answer the question, take {request.rng.randrange(10**9)}.")
    usual = {"trainset": TRAIN, "valset": VALIDATION, "proposer": proposer, "budget": 600}
    seed = {"seed_instruction": "Answer the question."}
    found: evoprompt.OptimizationResult = learn(program, **{**seed, **usual, **given})
    return found


def test_where_all_is_luck_the_value_is_nearer_to_the_truth_than_what_was_measured() -> None:
    found = [run(seed=seed, budget=1200) for seed in range(8)]
    measured, value = fmean(one.validation for one in found), fmean(one.value for one in found)
    assert measured > 0.49  # all texts are worth 0.4
    assert abs(value - 0.4) < (measured - 0.4) / 2
    assert all(one.value <= one.validation for one in found)


@pytest.mark.parametrize("seed", [0, 1])
def test_what_the_search_leaves_of_the_budget_measures_the_best(seed: int) -> None:
    """Also where it does not suffice for the whole validation set."""
    many = [f"validation {n}" for n in range(400)]
    result = run(seed=seed, valset=many, budget=200, options=OptimizeOptions(patience=100))
    assert result.stopped == "the budget is spent but for the final measurement"
    assert result.rollouts == 200


def test_a_testset_is_asked_of_the_best_alone_within_the_budget(tmp_path: Path) -> None:
    asked: Counter[tuple[str, str]] = Counter()

    def counted(instruction: str, example: str) -> str:
        asked[instruction, example] += 1
        return lucky(instruction, example)

    result = run(counted, testset=TEST, directory=tmp_path / "run")
    tested = [key for key in asked if key[1].startswith("test ")]
    assert {instruction for instruction, _ in tested} == {result.best.text}
    assert result.tested
    assert result.asked == len(tested) == len(TEST)
    assert result.value == fmean(lucky(result.best.text, one) == "right" for one in TEST)
    assert asked.total() == result.rollouts <= 600
    assert "on 50 test questions" in result.facts[1]
    read, again = read_result(tmp_path / "run"), run(testset=TEST, resume=tmp_path / "run")
    assert [(one.value, one.tested) for one in (read, again)] == [(result.value, True)] * 2
    long = run(testset=TEST, budget=80)
    assert long.asked == 20  # a quarter of the budget
    assert long.rollouts <= 80


def test_a_testset_of_known_examples_is_warned_of_and_an_empty_one_refused() -> None:
    with pytest.warns(EvopromptWarning, match="2 of the 3 test examples are in the trainset or"):
        run(testset=[TRAIN[0], VALIDATION[0], "new"], budget=60)
    sets = {"trainset": [Question("a", "1+1?")], "valset": [Question("b", "2+2?")]}
    with pytest.warns(EvopromptWarning, match="1 of the 2 test examples"):
        run(**sets, testset=[Question("c", "1+1?"), Question("d", "3+3?")], budget=60)
    with pytest.raises(InputError, match="the testset is empty"):
        run(testset=[])
