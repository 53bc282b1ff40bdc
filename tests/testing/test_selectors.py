"""The suite of selectors passes what is right and names what is wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from failing_checks import failing

from evoprompt import Selector
from evoprompt.selectors import Deap, Softmax
from evoprompt.testing import (
    SelectorSuite,
)
from evoprompt.types import (
    CandidateStats,
)


class TestSelectors:
    @pytest.mark.parametrize(
        "operator", ["best", "worst", "random", "tournament", "roulette", "lexicase"]
    )
    def test_deap_s_operators_pass(self, operator: str) -> None:
        arguments = {"tournsize": 2} if operator == "tournament" else None
        assert failing(SelectorSuite, lambda: Deap(operator, arguments)) == set()

    @pytest.mark.parametrize("temperature", [0.01, 0.2, 100.0])
    def test_softmax_passes_at_any_temperature(self, temperature: float) -> None:
        assert failing(SelectorSuite, lambda: Softmax(temperature)) == set()

    def test_one_that_returns_too_few(self) -> None:
        class Short(Softmax):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                return list(candidate_stats)[:k]

        assert "chooses exactly k of the given" in failing(SelectorSuite, Short)

    def test_one_that_makes_standings_up(self) -> None:
        class Copying(Softmax):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                return [replace(one, weight=9.0) for one in super().select(candidate_stats, k, rng)]

        assert "chooses exactly k of the given" in failing(SelectorSuite, Copying)

    def test_one_that_ignores_k_0(self) -> None:
        class Eager(Softmax):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                return super().select(candidate_stats, max(k, 1), rng)

        assert "chooses nobody for k 0" in failing(SelectorSuite, Eager)

    def test_one_that_divides_by_the_sum_of_weights(self) -> None:
        class Naive(Selector):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                total = sum(stats.weight for stats in candidate_stats)
                return rng.choices(
                    candidate_stats, [one.weight / total for one in candidate_stats], k=k
                )

        assert failing(SelectorSuite, Naive) == {
            "copes with all finite weights",
            "copes with candidates that were never measured",
            "repeats itself from the seed",
        }

    def test_one_that_draws_from_the_global_generator(self) -> None:
        class Global(Softmax):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                return random.choices(candidate_stats, k=k)

        assert {
            "draws only from the generator handed in",
            "repeats itself from the seed",
        } <= failing(SelectorSuite, Global)

    def test_one_that_sorts_what_it_is_given(self) -> None:
        class Sorting(Softmax):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                assert isinstance(candidate_stats, list)
                candidate_stats.sort(key=lambda stats: stats.weight)
                return super().select(candidate_stats, k, rng)

        assert "changes nothing it is given" in failing(SelectorSuite, Sorting)

    def test_one_whose_probabilities_are_not_those_of_its_draws(self) -> None:
        class Lying(Softmax):
            def probabilities(self, candidate_stats: Sequence[CandidateStats]) -> list[float]:
                return [1 / len(candidate_stats)] * len(candidate_stats)

            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                return Softmax(0.2).select(candidate_stats, k, rng)

        assert failing(SelectorSuite, Lying) == {"says probabilities that agree with its choices"}
