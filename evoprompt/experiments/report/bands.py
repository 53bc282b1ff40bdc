"""What several seeds have in common: their mean and their range, on common points."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

Points = Sequence[tuple[float, float]]

_SMOOTH = 5  # steps; as many as the window of Eq. 6
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_T_MORE = ((15, 2.131), (20, 2.086), (30, 2.042), (60, 2.0))


class Band(NamedTuple):
    """Several curves at one point."""

    x: float
    mean: float
    low: float
    high: float


class Interval(NamedTuple):
    """A mean with its interval of 95%."""

    mean: float
    low: float
    high: float


def band(lines: Sequence[Points], most: int | None = None) -> list[Band]:
    """Mean and range of several curves where all of them have values, on points of the first.

    Curves that are not half as long as the longest have only begun and would cut it short.

    Args:
        lines: none of them empty, each by growing x.
        most: points to give, spread evenly; all by default.
    """
    if not lines:
        return []
    farthest = max(line[-1][0] for line in lines)
    whole = [line for line in lines if line[-1][0] >= farthest / 2]
    start = max(line[0][0] for line in whole)
    end = min(line[-1][0] for line in whole)
    xs = [x for x, _ in whole[0] if start <= x <= end]
    if most is not None and len(xs) > most:
        xs = [xs[at] for at in np.linspace(0, len(xs) - 1, most).round().astype(int)]
    heights = np.array(
        [np.interp(xs, [x for x, _ in line], [y for _, y in line]) for line in whole]
    )
    columns = heights.mean(axis=0), heights.min(axis=0), heights.max(axis=0)
    return [Band(*point) for point in zip(xs, *(c.tolist() for c in columns), strict=True)]


def smoothed(line: Points) -> Points:
    """Running mean over the last few steps."""
    values = [y for _, y in line]
    return [(x, fmean(values[max(0, i + 1 - _SMOOTH) : i + 1])) for i, (x, _) in enumerate(line)]


def interval(values: Sequence[float]) -> Interval | None:
    """Student's interval of 95% around the mean; None for fewer than two values.

    >>> low, high = interval([1.0, 2.0, 3.0])[1:]
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    if len(values) < 2:
        return None
    half = _quantile(len(values) - 1) * stdev(values) / len(values) ** 0.5
    return Interval(fmean(values), fmean(values) - half, fmean(values) + half)


def _quantile(freedom: int) -> float:
    """Of Student's distribution at .975; of the next smaller number in the table, so never less."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    return next((t for at, t in reversed(_T_MORE) if at <= freedom), _T[-1])
