"""Importance weights are those of Eq. 6, by brute force."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.attributors import WindowMean
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import Candidate, CandidateStats, Trajectory

A, B = candidate(0), candidate(1)
rewards = st.none() | st.sampled_from([0.0, 1.0]) | st.floats(-1e6, 1e6)
histories = st.lists(
    st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 3), rewards), max_size=8),
    max_size=9,
)
History = Sequence[Sequence[tuple[Candidate, int, float | None]]]


def told(history: History, step: int) -> list[Trajectory]:
    """Trajectories of one step; those of one question and candidate are a group."""
    return [
        replace(found, assignment=replace(found.assignment, id=f"{step}-{who.id}-{number}"))
        for who, number, reward in history[step]
        for found in [trajectory(who, question(number), reward)]
    ]


def observed(history: History, window: int = 5) -> WindowMean:
    attributor = WindowMean(window)
    for step in range(len(history)):
        attributor.observe(step, told(history, step))
    return attributor


def scored(history: History, who: Candidate) -> list[list[tuple[int, float]]]:
    """Question and reward of each scored trajectory of ``who``, for each step that has one."""
    steps = [[(q, r) for c, q, r in step if c == who and r is not None] for step in history]
    return [step for step in steps if step]


class TestWeight:
    @given(history=histories, window=st.integers(1, 6))
    def test_is_the_mean_of_the_last_step_means(self, history: History, window: int) -> None:
        attributor = observed(history, window)
        for who in (A, B):
            steps = scored(history, who)[-window:]
            expected = fmean(fmean(r for _, r in step) for step in steps) if steps else 0.0
            assert attributor.stats(who).weight == pytest.approx(expected, abs=1e-6)


class TestUncertainty:
    def test_is_infinite_below_two_groups(self) -> None:
        assert WindowMean().stats(A) == CandidateStats(A, 0.0, math.inf, 0)
        assert observed([[(A, 0, 1.0), (A, 0, 0.0)]]).stats(A).stderr == math.inf

    def test_of_one_step_is_that_of_a_mean_of_group_means(self) -> None:
        history: History = [[(A, 0, 1.0), (A, 1, 0.0), (A, 2, 1.0), (A, 3, 1.0), (A, 3, 0.0)]]
        expected = stdev([1.0, 0.0, 1.0, 0.5]) / math.sqrt(4)
        assert observed(history).stats(A).stderr == pytest.approx(expected)


class TestObjectivesAndQuestions:
    def test_objectives_are_the_means_of_the_metrics_there_were(self) -> None:
        attributor = WindowMean()
        for step, calls in enumerate([(1.0, 2.0), (), (3.0,)]):
            usual = trajectory(A, question(0), 1.0)
            told = [usual, *(replace(usual, metrics={"calls": c}) for c in calls)]
            attributor.observe(step, told)
        assert attributor.stats(A).objectives["calls"] == 2.0

    def test_rewards_by_question_are_means_since_the_last_reset(self) -> None:
        history: History = [[(A, 0, 1.0), (A, 1, 0.0)], [(A, 0, 0.0), (A, 2, None)]]
        attributor = observed(history, window=1)
        assert attributor.stats(A).by_question == {"q0": 0.5, "q1": 0.0}
        attributor.reset({"c0": [1.0]})
        assert attributor.stats(A).by_question == {}

    def test_only_the_latest_questions_are_kept(self) -> None:
        attributor = WindowMean()
        for number in range(300):
            attributor.observe(number, [trajectory(A, question(number), 1.0)])
        kept = attributor.stats(A).by_question
        assert set(kept) == {f"q{number}" for number in range(44, 300)}
