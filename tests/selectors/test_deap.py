"""DEAP's operators choose as they should, from the engine's generator alone."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from deap import tools
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.roles import Selector
from evoprompt.selectors import Deap
from evoprompt.support.errors import InputError
from evoprompt.testing import SelectorSuite
from evoprompt.testing.samples import candidate, candidate_stats
from evoprompt.types import CandidateStats

OPERATORS: dict[str, Mapping[str, Any]] = {
    "best": {},
    "worst": {},
    "random": {},
    "tournament": {"tournsize": 2},
    "double-tournament": {"fitness_size": 3, "parsimony_size": 1.4, "fitness_first": True},
    "roulette": {},
    "stochastic_universal_sampling": {},
    "lexicase": {},
    "epsilon-lexicase": {"epsilon": 0.1},
    "automatic-epsilon-lexicase": {},
    "nsga2": {},
    "nsga3": {"ref_points": tools.uniform_reference_points(2, 4)},
    "spea2": {},
}
PARETO = ("nsga2", "nsga3", "spea2")


def build(operator: str) -> Deap:
    objectives = {"tool_calls": -1.0} if operator in PARETO else None
    return Deap(operator, OPERATORS[operator], objectives)


def ids(chosen: Sequence[CandidateStats]) -> list[str]:
    return [stats.candidate.id for stats in chosen]


def shares(selector: Deap, given_: Sequence[CandidateStats], draws: int) -> dict[str, float]:
    """How often each is chosen when asked for one at a time."""
    rng = random.Random(2)
    counts = Counter(ids(selector.select(given_, 1, rng))[0] for _ in range(draws))
    return {stats.candidate.id: counts[stats.candidate.id] / draws for stats in given_}


def tolerance(chance: float, draws: int) -> float:
    return 5 * math.sqrt(chance * (1 - chance) / draws) + 1e-9


class TestConformance(SelectorSuite):
    @pytest.fixture(params=("tournament", "stochastic_universal_sampling", "nsga3"), autouse=True)
    def choose_operator(self, request: pytest.FixtureRequest) -> None:
        self.operator: str = request.param

    def build(self) -> Selector:
        return build(self.operator)


class TestWhatTheyChoose:
    def test_best_and_worst(self) -> None:
        given_ = candidate_stats([0.1, 0.9, 0.5])
        assert ids(Deap("best").select(given_, 2, random.Random(0))) == ["c1", "c2"]
        assert ids(Deap("worst").select(given_, 2, random.Random(0))) == ["c0", "c2"]

    @pytest.mark.parametrize(
        ("weights", "chances"),
        [
            ([0.1, 0.3, 0.6], [0.1, 0.3, 0.6]),
            ([0.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
            ([0.0, 0.0, 0.0], [1 / 3] * 3),
            ([-1.0, -1.0], [0.5, 0.5]),
            ([-3.0, -1.0, 0.0], [0.0, 0.4, 0.6]),
        ],
    )
    @pytest.mark.parametrize("operator", ["roulette", "stochastic_universal_sampling"])
    def test_proportional_frequencies_are_shares_of_the_weight(
        self, operator: str, weights: list[float], chances: list[float]
    ) -> None:
        draws = 4000
        found = shares(Deap(operator), candidate_stats(weights), draws)
        for number, chance in enumerate(chances):
            assert abs(found[f"c{number}"] - chance) < tolerance(chance, draws)

    @given(
        points=st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
            min_size=1,
            max_size=7,
        ),
        k=st.integers(1, 7),
    )
    @pytest.mark.parametrize("operator", ["nsga2", "nsga3", "spea2"])
    def test_pareto_operators_take_the_first_front_first(
        self, operator: str, points: list[tuple[int, int, int]], k: int
    ) -> None:
        arguments = (
            {"ref_points": tools.uniform_reference_points(3, 4)} if operator == "nsga3" else {}
        )
        given_ = [
            CandidateStats(candidate(n), float(w), objectives={"calls": float(c), "f1": float(f)})
            for n, (w, c, f) in enumerate(points)
        ]
        gains = [(w, -c, f) for w, c, f in points]

        def dominated(number: int) -> bool:
            return any(
                other != gains[number]
                and all(o >= g for o, g in zip(other, gains[number], strict=True))
                for other in gains
            )

        front = {f"c{number}" for number in range(len(points)) if not dominated(number)}
        selector = Deap(operator, arguments, {"calls": -1.0, "f1": 2.0})
        chosen = set(ids(selector.select(given_, min(k, len(points)), random.Random(0))))
        assert chosen <= front if len(chosen) <= len(front) else front <= chosen

    def test_lexicase_takes_whoever_is_the_best_at_some_question(self) -> None:
        rewards = [{"q0": 1.0, "q1": 0.0}, {"q0": 0.0, "q1": 1.0}, {"q0": 0.9, "q1": 0.9}]
        given_ = [
            CandidateStats(candidate(n), 0.5, by_question=found) for n, found in enumerate(rewards)
        ]
        found = shares(Deap("lexicase"), given_, 4000)
        assert found["c2"] == 0.0
        assert abs(found["c0"] - 0.5) < tolerance(0.5, 4000)


class TestWhatDoesNotLeak:
    def test_an_objective_not_measured_counts_as_average(self) -> None:
        few, many = (
            CandidateStats(candidate(n), 0.5, objectives={"calls": calls})
            for n, calls in enumerate([1.0, 3.0])
        )
        given_ = [many, CandidateStats(candidate(2), 0.5), few]
        selector = Deap("nsga2", objectives={"calls": -1.0})
        assert ids(selector.select(given_, 1, random.Random(0))) == ["c0"]
        assert sorted(ids(selector.select(given_, 2, random.Random(0)))) == ["c0", "c2"]


class TestRefusals:
    @pytest.mark.parametrize("operator", ["", "luck", "tournament_dcd", "nsga3withmemory"])
    def test_an_operator_that_deap_lacks_or_that_does_not_fit(self, operator: str) -> None:
        with pytest.raises(InputError, match=r"no selection operator .* required: one of auto.*"):
            Deap(operator)

    @pytest.mark.parametrize(
        ("operator", "arguments"),
        [("tournament", {}), ("tournament", {"size": 3}), ("best", {"size": 3}), ("nsga3", {})],
    )
    def test_arguments_that_do_not_suit_the_operator(
        self, operator: str, arguments: Mapping[str, Any]
    ) -> None:
        with pytest.raises(InputError, match=f"do not suit DEAP's {operator}: .*required"):
            Deap(operator, arguments)

    def test_an_objective_without_a_direction(self) -> None:
        with pytest.raises(InputError, match="objectives calls have the direction 0"):
            Deap("nsga2", objectives={"calls": 0.0, "f1": 1.0})


def test_a_question_that_a_candidate_never_had_counts_as_its_weight() -> None:
    strong, weak = (
        replace(stats, by_question=by_question)
        for stats, by_question in zip(
            candidate_stats([0.9, 0.45]), ({"q1": 0.4}, {"q1": 0.4, "q2": 0.5}), strict=True
        )
    )
    assert shares(Deap("lexicase"), [strong, weak], 50) == {"c0": 1.0, "c1": 0.0}
