"""Where rewards are partly luck, an instruction is still found, and luck alone convinces nobody."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest
from optimizing import HABITS, SEED, Writes, learn

from evoprompt import OptimizationResult, ProposalRequest

TRAIN = [f"train question {n} about kind {n % 4}" for n in range(60)]
VALIDATION = [f"another question {n} about kind {n % 4}" for n in range(40)]


def known(text: str) -> int:
    return sum(habit in text for habit in HABITS)


def teach(request: ProposalRequest) -> str:
    """Adds a habit, or every other time a sentence that is of no use."""
    parent = request.parents[0].candidate
    added = request.rng.choice(HABITS)
    if request.rng.random() < 0.5 or added in parent.text:
        added = f"Remember the number {request.rng.randrange(100_000)} at all times."
    return f"{parent.text} {added}"


def run(reward: Callable[[str, str], float], **given: Any) -> OptimizationResult:
    usual = {"trainset": TRAIN, "valset": VALIDATION, "proposer": Writes(teach), "budget": 900}
    found: OptimizationResult = learn(reward, lambda example, output: output, **{**usual, **given})
    return found


def flipped(rng: random.Random) -> Callable[[str, str], float]:
    """A fifth of the rewards say the contrary."""
    return lambda text, asked: float((HABITS[int(asked[-1])] in text) != (rng.random() < 0.2))


def drawn(rng: random.Random) -> Callable[[str, str], float]:
    """No failure tells by itself: each habit makes all questions somewhat likelier to be right."""

    def reward(text: str, example: str) -> float:
        hard = (sum(ord(letter) * n for n, letter in enumerate(example, 1)) % 100) / 25 - 2
        return float(rng.random() < 1 / (1 + math.exp(-(1.3 * known(text) - 2 - hard))))

    return reward


@pytest.mark.slow
@pytest.mark.parametrize(("world", "habits"), [(flipped, 3), (drawn, 2.5)])
def test_luck_does_not_hide_what_helps(world: Any, habits: float) -> None:
    found = [run(world(random.Random(seed)), seed=seed).best.text for seed in range(5)]
    assert fmean(map(known, found)) >= habits


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nothing_but_luck_costs_patience_and_not_the_budget(seed: int) -> None:
    rng = random.Random(seed)
    result = run(
        lambda text, example: float(rng.random() < 0.3), seed=seed, budget=5000, patience=40
    )
    assert result.rollouts < 5000
    assert result.value < 0.6


def test_a_failure_that_nothing_can_mend_does_not_keep_the_others_from_being_seen() -> None:
    """Three labels are wrong; they are found first, and would be shown for ever."""
    shown: set[str] = set()

    def write(request: ProposalRequest) -> str:
        shown.update(failure.question.text for failure in request.failures)
        return f"{SEED} Remember the number {request.step}."

    result = run(lambda text, example: 0.0, proposer=Writes(write), patience=20)
    assert result.iterations == 20
    assert len(shown) > 6
