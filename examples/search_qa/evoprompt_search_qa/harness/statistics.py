"""Intervals and a paired test by resampling, seeded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
_SEED = 20_260_101
_AT_A_TIME = 4_000_000  # numbers drawn in one go


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two methods on the same questions.

    Attributes:
        difference: mean of the first minus mean of the second, averaged over the sets.
        low: lower end of its 95 % interval.
        high: upper end.
        p: chance of a difference at least as large if the methods were the same, in (0, 1].
        questions: pairs compared.
    """

    difference: float
    low: float
    high: float
    p: float
    questions: int


def estimate(sets: Sequence[Sequence[float]]) -> Estimate:
    """The mean over sets of the means within sets, with a percentile bootstrap interval.

    Questions are drawn anew within each set (Efron and Tibshirani, 1993, chapter 13).

    Args:
        sets: one or more sets of one or more values.
    """
    rng = np.random.default_rng(_SEED)
    drawn = np.mean([_bootstrap_means(np.asarray(values), rng) for values in sets], axis=0)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(float(np.mean([np.mean(values) for values in sets])), float(low), float(high))


def compare(
    first: Sequence[Mapping[str, float]], second: Sequence[Mapping[str, float]]
) -> Comparison:
    """A paired comparison on the questions that both have, each question compared with itself.

    The interval is a percentile bootstrap of the differences; ``p`` is from the two-sided
    sign-flip permutation test (Dror et al., 2018, "The Hitchhiker's Guide to Testing Statistical
    Significance in NLP"), the observed labelling counted as one of the permutations.

    Args:
        first: by set, the value of each question of the first method.
        second: the same of the second one.

    Raises:
        ValueError: no set has a question that both have.
    """
    pairs = [
        np.array([ours[question] - theirs[question] for question in ours if question in theirs])
        for ours, theirs in zip(first, second, strict=True)
    ]
    sets = [differences for differences in pairs if len(differences)]
    if not sets:
        raise ValueError("nothing to compare: no question was answered by both")
    found = estimate([differences.tolist() for differences in sets])
    rng = np.random.default_rng(_SEED)
    flipped = np.mean([_flipped_means(differences, rng) for differences in sets], axis=0)
    # Sums of the same numbers in another order must not count as larger.
    extreme = np.abs(flipped) >= abs(found.mean) - 1e-12
    p = float((1 + extreme.sum()) / (1 + RESAMPLES))
    return Comparison(found.mean, found.low, found.high, p, sum(map(len, sets)))


def _bootstrap_means(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    parts = [
        values[rng.integers(0, len(values), (count, len(values)))].mean(axis=1)
        for count in _portions(len(values))
    ]
    return np.concatenate(parts)


def _flipped_means(
    differences: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    parts = [
        (rng.choice((-1.0, 1.0), (count, len(differences))) * differences).mean(axis=1)
        for count in _portions(len(differences))
    ]
    return np.concatenate(parts)


def _portions(size: int) -> list[int]:
    """Resamples to draw at a time, so that large sets do not need large memory."""
    most = max(1, _AT_A_TIME // size)
    return [min(most, RESAMPLES - start) for start in range(0, RESAMPLES, most)]
