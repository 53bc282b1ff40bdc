from __future__ import annotations

import math
import random

import pytest
from evoprompt_search_qa.harness.statistics import compare, estimate


def coins(count: int, chance: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [float(rng.random() < chance) for _ in range(count)]


def test_the_interval_agrees_with_the_normal_approximation() -> None:
    values = coins(2000, 0.4, 1)
    found = estimate([values])
    mean = sum(values) / len(values)
    half = 1.96 * math.sqrt(mean * (1 - mean) / len(values))
    assert found.mean == pytest.approx(mean)
    assert found.low == pytest.approx(mean - half, abs=0.002)
    assert found.high == pytest.approx(mean + half, abs=0.002)


def test_every_set_counts_the_same_however_large() -> None:
    assert estimate([[1.0] * 10, [0.0] * 990]).mean == 0.5


def test_it_is_seeded() -> None:
    values = coins(50, 0.5, 2)
    assert estimate([values]) == estimate([values])


def test_equal_methods_do_not_differ() -> None:
    values = {str(n): value for n, value in enumerate(coins(100, 0.5, 3))}
    found = compare([values], [values])
    assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_the_test_agrees_with_the_exact_sign_test() -> None:
    first = {str(n): float(n < 9) for n in range(100)}
    second = {str(n): float(n == 9) for n in range(100)}
    # Ten questions differ, nine of them for the first method.
    exact = 2 * (1 + 10) / 2**10
    found = compare([first], [second])
    assert found.difference == pytest.approx(0.08)
    assert found.p == pytest.approx(exact, abs=0.006)
    assert found.low < 0.08 < found.high


def test_a_clear_difference_is_found_and_chance_is_not() -> None:
    good, fair, again = (
        {str(n): value for n, value in enumerate(coins(300, chance, seed))}
        for chance, seed in ((0.7, 4), (0.5, 5), (0.5, 6))
    )
    assert compare([good], [fair]).p < 0.001
    assert compare([fair], [again]).p > 0.05


def test_only_questions_that_both_have_are_compared() -> None:
    found = compare([{"a": 1.0, "b": 1.0}, {"c": 1.0}], [{"b": 0.0, "x": 1.0}, {"y": 0.0}])
    assert (found.difference, found.questions) == (1.0, 1)
    with pytest.raises(ValueError, match="nothing to compare"):
        compare([{"a": 1.0}], [{"b": 1.0}])
