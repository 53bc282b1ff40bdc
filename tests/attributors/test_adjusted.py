"""Effects are told from difficulties, whatever is asked of whom."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from evoprompt.attributors import Adjusted
from evoprompt.roles import Attributor
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import Candidate, Trajectory


def group(step: int, who: Candidate, number: int, rewards: Sequence[float]) -> list[Trajectory]:
    return [
        replace(one, assignment=replace(one.assignment, id=f"{step}-{who.id}-{number}"))
        for reward in rewards
        for one in [trajectory(who, question(number), reward)]
    ]


def sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def played(
    attributor: Attributor,
    effects: Sequence[float],
    *,
    steps: int = 15,
    questions: int = 16,
    candidates_per_question: int = 1,
    rollouts: int = 5,
    spread: float = 2.0,
    drift: float = 0.0,
    reward: Callable[[bool], float] = float,
    seed: int = 0,
) -> None:
    """Tells ``attributor`` of Bernoulli rewards; questions never repeat."""
    rng = random.Random(seed)
    population = [candidate(index) for index in range(len(effects))]
    for step in range(1, steps + 1):
        told: list[Trajectory] = []
        for number in range(questions):
            difficulty = rng.gauss(-1.0, spread) + drift * step
            for who in rng.sample(population, candidates_per_question):
                chance = sigmoid(difficulty + effects[int(who.id[1:])])
                rewards = [reward(rng.random() < chance) for _ in range(rollouts)]
                told += group(step, who, 1000 * step + number, rewards)
        attributor.observe(step, told)


class TestQuestions:
    def test_a_question_asked_of_two_compares_them_whatever_it_is_worth(self) -> None:
        """One was drawn for the easy question alone; on the shared ones it is the worse one."""
        lucky, better = candidate(0), candidate(1)
        attributor = Adjusted()
        for step in range(1, 9):
            number = 10 * step
            attributor.observe(
                step,
                [
                    *group(step, lucky, number, [1.0] * 5),
                    *group(step, better, number + 1, [0.0] * 5),
                    *group(step, lucky, number + 2, [0.0, 0.0, 1.0]),
                    *group(step, better, number + 2, [1.0, 1.0, 0.0]),
                    *group(step, lucky, number + 3, [0.0, 0.0, 1.0]),
                    *group(step, better, number + 3, [1.0, 1.0, 0.0]),
                ],
            )
        assert attributor.stats(better).weight < attributor.stats(lucky).weight + 0.3
        blocks = Adjusted()
        for step in range(1, 9):
            shared = [
                *group(step, lucky, step, [0.0, 0.0, 1.0]),
                *group(step, better, step, [1.0, 1.0, 0.0]),
            ]
            blocks.observe(step, shared)
        assert blocks.stats(better).weight > blocks.stats(lucky).weight + 0.1


class TestMemory:
    def test_a_forgotten_candidate_has_no_group_and_begins_anew(self) -> None:
        attributor = Adjusted()
        played(attributor, [0.0, 2.0], steps=5)
        assert attributor.stats(candidate(1)).groups > 1
        attributor.forget([candidate(1).id])
        assert attributor.stats(candidate(1)).groups == 0
        attributor.observe(6, group(6, candidate(1), 1, [1.0, 0.0]))
        assert attributor.stats(candidate(1)).groups == 1

    @pytest.mark.parametrize("candidates_per_question", [1, 2])
    def test_fades_by_half_in_a_half_life(self, candidates_per_question: int) -> None:
        """Two trade places half-way: the later half counts for more, the more so if it fades."""

        def lead(half_life: float) -> float:
            attributor = Adjusted(half_life)
            for step in range(1, 41):
                ahead = step <= 20
                told = [
                    one
                    for number in range(4)
                    for who, is_first in ((candidate(0), True), (candidate(1), False))
                    if candidates_per_question == 2 or number % 2 == is_first
                    for one in group(step, who, 10 * step + number, [float(is_first == ahead)])
                ]
                attributor.observe(step, told)
            return attributor.lead(candidate(1), candidate(0)).value

        assert abs(lead(1e9)) < 1e-6
        assert lead(60) == pytest.approx((1 - 0.5 ** (20 / 60)) / (1 + 0.5 ** (20 / 60)))
        assert lead(20) == pytest.approx(1 / 3)

    @pytest.mark.parametrize("half_life", [0, -1.0, math.nan])
    def test_a_half_life_that_is_none_is_refused(self, half_life: float) -> None:
        with pytest.raises(ValueError, match="required: above 0 steps"):
            Adjusted(half_life)


class TestModel:
    @pytest.mark.parametrize(("spread", "effect"), [(1.0, 0.6), (3.0, 0.3)])
    def test_intervals_cover(self, spread: float, effect: float) -> None:
        """95 % intervals for a candidate's difference from the mean of all."""
        inside, total = 0, 0
        nodes, shares = np.polynomial.hermite_e.hermegauss(41)
        shares = shares / shares.sum()
        for seed in range(40):
            rng = random.Random(seed)
            effects = [rng.gauss(0.0, effect) for _ in range(7)]
            attributor = Adjusted()
            played(attributor, effects, steps=8, spread=spread, seed=seed)
            true = [
                float((shares / (1 + np.exp(1.0 - spread * nodes - one))).sum()) for one in effects
            ]
            found = [attributor.stats(candidate(index)) for index in range(7)]
            for stats, value in zip(found, true, strict=True):
                off = stats.weight - np.mean([one.weight for one in found])
                inside += int(abs(off - (value - np.mean(true))) < 1.96 * stats.stderr)
                total += 1
        assert 0.88 <= inside / total <= 1.0

    def test_any_range_of_rewards_will_do(self) -> None:
        usual, other = Adjusted(), Adjusted()
        effects = [0.5, 0.0, -0.5]
        played(usual, effects, candidates_per_question=2, rollouts=2)
        played(
            other,
            effects,
            candidates_per_question=2,
            rollouts=2,
            reward=lambda solved: 100.0 if solved else -20.0,
        )
        for index in range(3):
            one, two = usual.stats(candidate(index)), other.stats(candidate(index))
            assert two.weight == pytest.approx(one.weight * 120 - 20, rel=1e-6)
            assert two.stderr == pytest.approx(one.stderr * 120, rel=1e-6)

    def test_the_level_follows_the_policy(self) -> None:
        """Who was drawn late, when the policy had learned, is not the better one for it."""
        attributor = Adjusted()
        rng = random.Random(0)
        early, late, always = (candidate(index) for index in range(3))
        for step in range(1, 31):
            chance = 0.2 + 0.02 * step
            told: list[Trajectory] = []
            for number in range(12):
                who = rng.choice([always, early if step <= 15 else late])
                rewards = [float(rng.random() < chance) for _ in range(4)]
                told += group(step, who, 100 * step + number, rewards)
            attributor.observe(step, told)
        assert abs(attributor.stats(late).weight - attributor.stats(early).weight) < 0.12
