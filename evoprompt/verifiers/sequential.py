"""A paired test that may be looked at several times, and still errs as seldom as it says.

The error rate is spent as O'Brien and Fleming would (Lan and DeMets, 1983): hardly any of it on the
first looks. Bounds are exact for the differences that were seen, whose signs are a matter of chance
where two candidates are equally good on every question (Fisher's sign-flipping test): for rewards
of 0 and 1 that is the sign test, at any number of questions; for others it is the usual test of a
mean once there are many.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

_STEPS = 16  # differences are rounded to this share of the greatest one
_NORMAL = NormalDist()


def spent(error: float, share: float) -> float:
    """How much of ``error`` may be spent by the time that ``share`` of all questions was asked."""
    if share >= 1:
        return error
    return 2 * (1 - _NORMAL.cdf(_NORMAL.inv_cdf(1 - error / 2) / math.sqrt(share)))


def is_positive(looks: Sequence[Sequence[float]], planned: int, error: float) -> bool:
    """Whether the mean of differences was shown to be more than 0 at one of the looks.

    Where it is 0 or less, that happens with a probability of at most ``error``, however many looks.

    Args:
        looks: the differences that came in before each look, since the one before.
        planned: number of differences after which there is no look any more; at least their number.
        error: the probability, in (0, 1).
    """
    units = _units(looks)
    chances = np.ones(1)  # of the sums from the least on, under random signs, if not yet shown
    total = asked = 0
    used = 0.0
    for differences, values in zip(looks, units, strict=True):
        asked += len(differences)
        total += sum(values)
        for size, times in Counter(map(abs, values)).items():
            chances = _flipped(chances, size, times)
        # Chance of a sum of at least each, the greatest first, and how many of them are bounds.
        tails = np.cumsum(chances[::-1])
        beyond = int(np.searchsorted(tails, spent(error, asked / planned) - used, side="right"))
        if beyond:
            used += float(tails[beyond - 1])
            chances[len(chances) - beyond :] = 0
            if total > (len(chances) - 1) // 2 - beyond:
                return True
    return False


def prospect(differences: Sequence[float], planned: int, error: float) -> float:
    """The chance that ``planned`` differences will show it, by what was seen (predictive power).

    Args:
        differences: those seen so far, fewer than planned.
        planned: number of differences there are to be.
        error: that of the test.
    """
    share = len(differences) / planned
    wanted = _NORMAL.inv_cdf(1 - error) * math.sqrt(share)
    return _NORMAL.cdf((score(differences) - wanted) / math.sqrt(1 - share))


def score(differences: Sequence[float]) -> float:
    """Their sum in standard deviations of what chance would make of it; 0 where all are 0."""
    greatest = max(map(abs, differences), default=0.0)
    if not greatest:
        return 0.0
    scaled = [difference / greatest for difference in differences]
    return math.fsum(scaled) / math.sqrt(math.fsum(one * one for one in scaled))


def _units(looks: Sequence[Sequence[float]]) -> list[list[int]]:
    """Differences as whole numbers of one unit."""
    greatest = max((abs(one) for differences in looks for one in differences), default=0.0)
    if not greatest:
        return [[0] * len(differences) for differences in looks]
    units = [[round(_STEPS * (one / greatest)) for one in differences] for differences in looks]
    common = math.gcd(*(one for differences in units for one in differences))
    return [[one // common for one in differences] for differences in units]


def _flipped(chances: np.ndarray, size: int, times: int) -> np.ndarray:
    """The chances of the sums with ``times`` more terms of plus or minus ``size``."""
    if not size:
        return chances
    terms = np.zeros(2 * size * times + 1)
    terms[:: 2 * size] = [math.comb(times, plus) / 2**times for plus in range(times + 1)]
    found: np.ndarray = np.convolve(chances, terms)
    return found
