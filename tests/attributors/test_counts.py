"""Estimates from small numbers, by hand: what is divided by what, what counts, and for how long."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev, variance

import pytest

from evoprompt import attributors
from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import Candidate, Trajectory

A, B, UNKNOWN = candidate(0), candidate(1), candidate(9)


def rollouts(
    step: int, member: Candidate, number: int, rewards: Sequence[float]
) -> list[Trajectory]:
    """Return the rollouts of an assignment of its own."""
    return [
        replace(record, assignment=replace(record.assignment, id=f"{step}-{member.id}-{number}"))
        for index, reward in enumerate(rewards)
        for record in [trajectory(member, question(number), reward, index)]
    ]


def test_the_error_of_a_window_weighs_steps_and_not_groups() -> None:
    attributor = WindowMean()
    attributor.observe(1, [*rollouts(1, A, 1, [1.0]), *rollouts(1, A, 2, [0.0])])
    attributor.observe(2, rollouts(2, A, 3, [1.0]))
    stats = attributor.stats(A)
    assert stats.weight == pytest.approx(0.75)
    assert stats.stderr == pytest.approx(stdev([1.0, 0.0, 1.0]) * math.sqrt(1 / 2 + 1) / 2)


def test_an_assignment_that_comes_in_parts_is_one_group() -> None:
    attributor = Adjusted()
    first, second = rollouts(1, A, 1, [1.0, 0.0])
    attributor.observe(1, [first])
    attributor.observe(1, [second])
    assert attributor.stats(A).groups == 1
    assert attributor.stats(A).by_question == {"q1": 0.5}


def test_the_noise_of_a_question_has_one_degree_of_freedom_less_than_rollouts() -> None:
    attributor = Adjusted()
    attributor.observe(1, [*rollouts(1, A, 1, [1.0]), *rollouts(1, B, 1, [0.0])])
    assert attributor.noise == pytest.approx(variance([1.0, 0.0]))


def test_the_error_of_a_lead_between_questions_is_that_of_two_means() -> None:
    rng = random.Random(0)
    rewards = [rng.random() for _ in range(24)]
    attributor = Adjusted()
    attributor.observe(
        1,
        [
            one_rollout
            for number, reward in enumerate(rewards)
            for one_rollout in rollouts(1, (A, B)[number % 2], number, [reward])
        ],
    )
    lead = attributor.lead(A, B)
    assert lead.value == pytest.approx(fmean(rewards[::2]) - fmean(rewards[1::2]))
    assert lead.stderr == pytest.approx(math.sqrt(variance(rewards) * (1 / 12 + 1 / 12)))


def test_questions_of_a_verification_do_not_move_the_level() -> None:
    attributor = Adjusted()
    for step in (1, 2):
        usual = [r for number in range(8) for r in rollouts(step, A, number, [1.0, 0.0])]
        attributor.observe(step, usual)
    assert attributor.stats(UNKNOWN).weight == pytest.approx(0.5)
    hard = [r for number in range(50, 58) for r in rollouts(2, A, number, [0.0, 0.0])]
    attributor.observe_verification(2, hard, {})
    assert attributor.stats(UNKNOWN).weight == pytest.approx(0.5)
    attributor.observe(3, [r for number in range(8) for r in rollouts(3, A, number, [0.0])])
    assert attributor.stats(UNKNOWN).weight < 0.45


def test_summing_up_old_questions_changes_no_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    def lead_after_training() -> tuple[float, float]:
        rng = random.Random(0)
        attributor = Adjusted(half_life=3.0)
        for step in range(1, 11):
            step_rollouts = [
                r
                for number in range(4)
                for member in (A, B)
                for r in rollouts(step, member, 10 * step + number, [rng.random()])
            ]
            attributor.observe(step, step_rollouts)
        lead = attributor.lead(A, B)
        return lead.value, lead.stderr

    whole = lead_after_training()
    monkeypatch.setattr(attributors, "_MAX_NUMBERS", 8)
    assert lead_after_training() == pytest.approx(whole)


def test_a_lead_needs_a_dozen_groups_of_both() -> None:
    attributor = Adjusted()
    for number in range(20):
        told = rollouts(1, A, number, [1.0])
        told += rollouts(1, B, number, [float(number % 2)]) if number < 11 else []
        attributor.observe(1, told)
    assert attributor.lead(A, B).stderr == attributor.lead(B, A).stderr == math.inf
    attributor.observe(1, rollouts(1, B, 11, [0.0]))
    assert attributor.lead(A, B).is_known
