"""The value is not flattered by the choice; a testset is asked of the best alone."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import optimizing
import pytest

import evoprompt
from evoprompt import EvopromptWarning, InputError, Proposal, ProposalRequest, Proposer
from evoprompt.optimizer.result import read_result

TRAIN = [f"train {n}" for n in range(40)]
VALIDATION = [f"validation {n}" for n in range(40)]
TEST = [f"test {n}" for n in range(50)]


class Numbers(Proposer):
    """Writes texts that differ in nothing that counts."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        number = request.rng.randrange(10**9)
        return [Proposal.of(f"Answer the question, take {number}.", parent)]


def lucky(instruction: str, example: str) -> str:
    return "right" if zlib.crc32(f"{instruction}/{example}".encode()) % 10 < 4 else "wrong"


def metric(example: str, output: str) -> float:
    return float(output == "right")


def run(**given: object) -> evoprompt.OptimizationResult:
    settings: dict[str, object] = {
        "program": lucky,
        "valset": VALIDATION,
        "proposer": Numbers(),
        "budget": 600,
        "progress": False,
        "max_concurrency": 1,
        **given,
    }
    return optimizing.optimize("Answer the question.", TRAIN, metric, **settings)


def test_where_all_is_luck_the_value_is_nearer_to_the_truth_than_what_was_measured() -> None:
    found = [run(seed=seed) for seed in range(8)]
    measured, value = fmean(one.validation for one in found), fmean(one.value for one in found)
    assert measured > 0.49  # all texts are worth 0.4
    assert abs(value - 0.4) < (measured - 0.4) / 2
    assert all(one.value <= one.validation for one in found)


def test_a_testset_is_asked_of_the_best_alone_within_the_budget(tmp_path: Path) -> None:
    asked: Counter[tuple[str, str]] = Counter()

    def counted(instruction: str, example: str) -> str:
        asked[instruction, example] += 1
        return lucky(instruction, example)

    result = run(program=counted, testset=TEST, directory=tmp_path / "run")
    tested = [key for key in asked if key[1].startswith("test ")]
    assert {instruction for instruction, _ in tested} == {result.best.text}
    assert result.tested
    assert result.asked == len(tested) == len(TEST)
    assert result.value == fmean(metric(one, lucky(result.best.text, one)) for one in TEST)
    assert sum(asked.values()) == result.rollouts <= 600
    assert "on 50 test questions" in result.facts()[1]
    assert read_result(tmp_path / "run").value == result.value
    again = run(testset=TEST, resume=tmp_path / "run")
    assert (again.value, again.tested) == (result.value, True)


def test_of_a_long_testset_a_quarter_of_the_budget_is_asked() -> None:
    result = run(testset=TEST, budget=80)
    assert result.asked == 20
    assert result.rollouts <= 80


def test_a_testset_of_known_examples_is_warned_of_and_an_empty_one_refused() -> None:
    with pytest.warns(EvopromptWarning, match="2 of the 3 test examples are in the trainset or"):
        run(testset=[TRAIN[0], VALIDATION[0], "new"], budget=60)
    with pytest.raises(InputError, match="the testset is empty"):
        run(testset=[])
