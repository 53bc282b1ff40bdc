"""An optimization that never scores warns, and stops before it pays for the whole budget."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optimizing import TRAIN, Writes, learn

from evoprompt import EvopromptWarning, ProposalRequest
from evoprompt.optimizer.flat import FlatRewardWatch, RewardRange

NOTICE = r"every reward up to iteration 5 is 0 \(.*required: a metric"
BUDGET = 400


class Variants(Writes):
    """Proposes another text each time and counts the requests; an interrupt may come in one."""

    def __init__(self, interrupted_step: int = 0) -> None:
        self.requests = 0
        self._interrupted_step = interrupted_step
        super().__init__(self._vary)

    def _vary(self, request: ProposalRequest) -> str:
        if request.step == self._interrupted_step:
            raise KeyboardInterrupt
        self.requests += 1
        return f"You answer questions, in manner {request.step}."


def answer(instruction: str, example: str) -> str:
    return instruction


def optimize(metric: Any, program: Any = answer, **given: Any) -> tuple[Any, int]:
    """Optimize, and return the result and the number of requests to the proposer."""
    variants = Variants()
    result = learn(program, metric, proposer=variants, budget=BUDGET, **given)
    return result, variants.requests


@pytest.fixture
def recorded() -> Iterator[list[warnings.WarningMessage]]:
    """Record warnings instead of raising them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def texts_of(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("at_once", [1, 8])
@pytest.mark.parametrize("lowest", [0.0, -1.0])
def test_it_stops_after_45_iterations_in_which_every_reward_is_the_lowest(
    lowest: float, at_once: int, recorded: list[warnings.WarningMessage]
) -> None:
    result, requests = optimize(lambda example, output: lowest, max_concurrency=at_once)
    assert (result.iterations, requests) == (45, 45)
    assert result.rollouts < BUDGET / 2
    assert result.stopped.startswith(f"every reward is {lowest:g}, the lowest, after 45 iterations")
    assert f"({result.rollouts} rewards)" in result.stopped
    assert "required: a metric" in result.stopped
    assert "to go on anyway, set patience" in result.stopped
    notice, stopped = texts_of(recorded)
    assert notice.startswith(f"every reward up to iteration 5 is {lowest:g} (")
    assert "after 45 iterations like these the optimization stops" in notice
    assert stopped == f"stopped: {result.stopped}"
    assert result.facts[0] == f"the optimization ended: {result.stopped}"


def test_rollouts_that_fail_have_no_reward_and_are_not_the_lowest(
    recorded: list[warnings.WarningMessage],
) -> None:
    def fail_sometimes(instruction: str, example: str) -> str:
        if example.endswith("kind 1"):
            raise ValueError("no such kind")
        return instruction

    result, _ = optimize(lambda example, output: 0.0, fail_sometimes)
    scored = result.rollouts - result.failures.failed
    assert result.failures.failed > 0
    assert f"({scored} rewards)" in result.stopped


def test_an_iteration_without_a_reward_does_not_count() -> None:
    rewards = RewardRange()
    watch = FlatRewardWatch(rewards, 1.0, True)
    rewards.add(0.0)
    warned = [watch.observe(step, step % 2) for step in range(1, 89)]
    assert [step for step, text in enumerate(warned, start=1) if text] == [9]
    assert not watch.stop_reason, "44 iterations have brought a reward"
    assert not watch.observe(89, 0)
    assert not watch.stop_reason
    watch.observe(90, 1)
    assert "after 45 iterations" in watch.stop_reason
    rewards.add(0.25)
    assert not watch.stop_reason


def test_one_reward_that_is_not_the_lowest_goes_on() -> None:
    scored: list[str] = []

    def metric(example: str, output: str) -> float:
        if scored or example not in TRAIN:
            return 0.0
        scored.append(example)
        return 0.1

    result, requests = optimize(metric)
    assert requests == result.iterations > 10
    assert "the budget is spent" in result.stopped


def test_a_hard_task_has_45_iterations_for_its_first_reward() -> None:
    def metric(example: str, output: str) -> float:
        return float("manner 45" in output)

    with pytest.warns(EvopromptWarning, match=NOTICE):
        result, _ = optimize(metric)
    assert result.value == 1.0


@pytest.mark.parametrize("constant", [0.5, 1.0])
def test_a_constant_reward_that_may_not_be_the_lowest_does_not_stop_it(
    constant: float, recorded: list[warnings.WarningMessage]
) -> None:
    result, requests = optimize(lambda example, output: constant)
    told = texts_of(recorded)
    if constant == 1.0:
        assert (told, requests) == ([], 0)
        assert "fails no training question" in result.stopped or "perfect" in result.stopped
        return
    assert requests > 10
    assert "the budget is spent" in result.stopped
    (notice,) = told
    assert notice.startswith("every reward up to iteration 5 is 0.5 (")
    assert "stops" not in notice


def test_patience_says_how_long_it_goes_on(recorded: list[warnings.WarningMessage]) -> None:
    result, requests = optimize(lambda example, output: 0.0, patience=14)
    assert requests == 14
    assert result.stopped == "no progress in 14 iterations"
    (notice,) = texts_of(recorded)
    assert "stops" not in notice


def test_a_resume_counts_on_and_patience_makes_it_go_on(
    tmp_path: Path, recorded: list[warnings.WarningMessage]
) -> None:
    def never(example: str, output: str) -> float:
        return 0.0

    whole, _ = optimize(never)
    some = learn(answer, never, proposer=Variants(7), budget=BUDGET, directory=tmp_path / "run")
    assert some.stopped == "it was interrupted"
    result, requests = optimize(never, resume=tmp_path / "run")
    assert (result.iterations, requests) == (45, 39)
    assert result.stopped == whole.stopped
    again, requests = optimize(never, resume=tmp_path / "run", patience=49)
    assert (again.iterations, requests) == (49, 4)
