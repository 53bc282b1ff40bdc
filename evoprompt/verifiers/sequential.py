"""A paired test that may be looked at several times, and still errs as seldom as it says.

The error rate is spent as O'Brien and Fleming would (Lan and DeMets, 1983): hardly any of it on the
first looks. Bounds are exact: where two candidates are equally good on a question, each of the
rewards seen there might as well have been the child's (Fisher's permutation test). For one reward
of 0 or 1 each that is the sign test, at any number of questions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist, fmean

import numpy as np

Difference = tuple[float, ...]
"""The child's lead on a question; then what it would be, were other rewards there the child's."""

_STEPS = 12  # differences are rounded to this share of the greatest one
_NORMAL = NormalDist()


def difference(own: float, others: Sequence[float]) -> Difference:
    """The child's reward minus the mean of the parent's rewards on the same question.

    >>> difference(1.0, [0.0, 0.0])
    (1.0, -0.5, -0.5)
    """
    rewards = (own, *others)
    total, count = math.fsum(rewards), len(others)
    noise = max(1e-9 * max(map(abs, rewards)), 1e-12)
    leads = [reward - (total - reward) / count for reward in rewards]
    return tuple(0.0 if abs(lead) <= noise else lead for lead in leads)


def spent(error: float, share: float) -> float:
    """How much of ``error`` may be spent by the time that ``share`` of all questions was asked."""
    if share >= 1:
        return error
    return 2 * (1 - _NORMAL.cdf(_NORMAL.inv_cdf(1 - error / 2) / math.sqrt(share)))


def is_positive(looks: Sequence[Sequence[Difference]], planned: int, error: float) -> bool:
    """Whether the child was shown to be better at one of the looks.

    If it is not, that happens with a probability of at most ``error``, however many looks.

    Args:
        looks: the differences that came in before each look, since the one before.
        planned: number of differences after which there is no look any more; at least their number.
        error: the probability, in (0, 1).
    """
    units = _units(looks)
    chances, least = np.ones(1), 0  # of the sums from the least on, if it was not shown before
    total = asked = 0
    used = 0.0
    for differences in units:
        asked += len(differences)
        total += sum(one[0] for one in differences)
        for values, times in Counter(tuple(sorted(one)) for one in differences).items():
            chances = np.convolve(chances, _power(_chances(values), times))
            least += values[0] * times
        # Chance of a sum of at least each, the greatest first, and how many of them are bounds.
        tails = np.cumsum(chances[::-1])
        beyond = int(np.searchsorted(tails, spent(error, asked / planned) - used, side="right"))
        if beyond:
            used += float(tails[beyond - 1])
            chances[len(chances) - beyond :] = 0
            if total - least >= len(chances) - beyond:
                return True
    return False


def prospect(differences: Sequence[Difference], planned: int, error: float) -> float:
    """The chance that ``planned`` differences will show it, by what was seen (predictive power).

    Args:
        differences: those seen so far, fewer than planned.
        planned: number of differences there are to be.
        error: that of the test.
    """
    share = len(differences) / planned
    wanted = _NORMAL.inv_cdf(1 - error) * math.sqrt(share)
    return _NORMAL.cdf((score(differences) - wanted) / math.sqrt(1 - share))


def score(differences: Sequence[Difference]) -> float:
    """Their sum in standard deviations of what chance would make of it; 0 where all are 0."""
    greatest = max((abs(one) for values in differences for one in values), default=0.0)
    if not greatest:
        return 0.0
    variance = math.fsum(fmean((one / greatest) ** 2 for one in values) for values in differences)
    return math.fsum(values[0] / greatest for values in differences) / math.sqrt(variance)


def _units(looks: Sequence[Sequence[Difference]]) -> list[list[tuple[int, ...]]]:
    """Differences as whole numbers of one unit."""
    every = [one for differences in looks for values in differences for one in values]
    greatest = max(map(abs, every), default=0.0) or 1.0
    common = math.gcd(*(round(_STEPS * (one / greatest)) for one in every)) or 1
    return [
        [tuple(round(_STEPS * (one / greatest)) // common for one in values) for values in look]
        for look in looks
    ]


def _chances(values: Sequence[int]) -> np.ndarray:
    """Chances of all numbers from the least to the greatest of equally likely ``values``."""
    return np.bincount(np.array(values) - values[0]) / len(values)


def _power(chances: np.ndarray, times: int) -> np.ndarray:
    """The chances of a sum of so many."""
    found = np.ones(1)
    while times:
        if times % 2:
            found = np.convolve(found, chances)
        chances, times = np.convolve(chances, chances), times // 2
    return found
