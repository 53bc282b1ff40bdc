"""Student's intervals of 95 % around a mean: over seeds, or over the questions of a single seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev
from typing import NamedTuple

MIN_SEEDS = 3
"""Seeds from which an interval over seeds is given; Student's factor for two seeds is 12.7."""


class Interval(NamedTuple):
    """Mean with its interval of 95 %."""

    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Return half of the width."""
        return (self.high - self.low) / 2


def interval(values: Sequence[float]) -> Interval | None:
    """Return Student's interval of 95 % around the mean; None for fewer than two values.

    >>> low, high = interval([1.0, 2.0, 3.0])[1:]
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    if len(values) < 2:
        return None
    half = student_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(fmean(values), fmean(values) - half, fmean(values) + half)


def interval_over_seeds(seeds: Sequence[Sequence[float]]) -> Interval | None:
    """Return the interval around the mean of several seeds; None for two seeds.

    For three seeds or more this is Student's interval of the seeds' means, with their sample
    variance. A seed's mean varies with its training and with its questions. So the interval covers
    another seed with other questions if each seed has questions of its own. If all seeds have the
    same questions, it covers another seed with these questions, but not other questions.

    For one seed this is Student's interval of its questions: it covers other questions, but not
    another seed.

    Args:
        seeds: the values of each seed's questions.
    """
    if len(seeds) == 1:
        return interval(seeds[0])
    return interval([fmean(values) for values in seeds]) if len(seeds) >= MIN_SEEDS else None


@cache
def student_quantile(freedom: int) -> float:
    """Return the .975 quantile of Student's distribution, by degrees of freedom.

    The distribution is the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4, solved by
    bisection.

    >>> round(student_quantile(4), 3)
    2.776
    """
    is_odd = freedom % 2
    low, high = 0.0, math.pi / 2  # of the angle with tangent t / sqrt(freedom)
    for _ in range(60):
        angle = (low + high) / 2
        term = math.cos(angle) if is_odd else 1.0
        series = term if freedom > 1 else 0.0
        for power in range(2 + is_odd, freedom, 2):
            term *= math.cos(angle) ** 2 * (power - 1) / power
            series += term
        inside = math.sin(angle) * series
        if is_odd:
            inside = 2 / math.pi * (angle + inside)
        low, high = (angle, high) if inside < 0.95 else (low, angle)
    return math.tan(low) * math.sqrt(freedom)
