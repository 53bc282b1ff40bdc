"""Intervals of 95 %: how often they hold the true mean, and the quantile behind them."""

from __future__ import annotations

import numpy
import pytest

from evoprompt.experiments.intervals import interval, interval_over_seeds, student_quantile


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [
        (1, 12.7062047362),
        (2, 4.30265272975),
        (3, 3.18244630528),
        (4, 2.7764451052),
        (5, 2.57058183564),
        (10, 2.22813885199),
        (29, 2.04522964213),
        (119, 1.98009987646),
        (299, 1.96792966907),
        (1000, 1.96233908083),
    ],
)
def test_the_quantile_is_that_of_scipy(freedom: int, quantile: float) -> None:
    """The numbers are `scipy.stats.t.ppf(0.975, freedom)`."""
    assert student_quantile(freedom) == pytest.approx(quantile, rel=1e-9)


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.3], ids=["questions", "both", "seeds"])
@pytest.mark.parametrize("seeds", [3, 5])
def test_the_interval_over_seeds_holds_the_mean_in_95_of_100_experiments(
    seeds: int, spread: float
) -> None:
    """Seeds differ by ``spread``, and each has 30 questions of its own, with noise of .4."""
    draws = numpy.random.default_rng(seeds)
    experiments, questions, true = 3_000, 30, 0.6
    effects = spread * draws.standard_normal((experiments, seeds, 1))
    values = true + effects + 0.4 * draws.standard_normal((experiments, seeds, questions))
    covered = 0
    for experiment in values.tolist():
        estimate = interval_over_seeds(experiment)
        assert estimate is not None
        covered += estimate.low <= true <= estimate.high
    assert covered / experiments == pytest.approx(0.95, abs=0.015)


def test_the_interval_of_one_seed_is_over_its_questions() -> None:
    values = [0.0, 1.0, 1.0, 0.0, 1.0]
    assert interval_over_seeds([values]) == interval(values)


def test_two_seeds_have_no_interval() -> None:
    assert interval_over_seeds([[0.0, 1.0], [1.0, 1.0]]) is None
