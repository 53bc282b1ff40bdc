"""The result in a sentence: an arm against the arm whose instruction stayed as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

from evoprompt.experiments.report.source import Source

_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's distribution at .975, by degrees of freedom; the last for more, so never too small."""


class Interval(NamedTuple):
    """A mean with its interval of 95%."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm against the static one, on test questions.

    Attributes:
        arm: its name.
        baseline: the static one's name.
        label: of the headline.
        value: mean of the headline over the seeds of ``arm``.
        against: the same of the baseline.
        seeds: in which both were finished.
        higher_is_better: whether a higher value is the better one.
        gain: by which ``arm`` is better, seed by seed, with its interval; None for one seed.
    """

    arm: str
    baseline: str
    label: str
    value: float
    against: float
    seeds: int
    higher_is_better: bool
    gain: Interval | None

    @property
    def is_shown(self) -> bool:
        """Whether the interval leaves out that there is no difference."""
        return self.gain is not None and not self.gain.low <= 0 <= self.gain.high

    @property
    def verdict(self) -> str:
        """What the interval says, for people who read no intervals."""
        if self.gain is None:
            return "One seed only, so this may be chance: run several (--seeds)."
        if not self.is_shown:
            return "No difference is shown beyond what chance explains."
        return f"{'Better' if self.gain.mean > 0 else 'Worse'}, beyond what chance explains."


def comparisons(source: Source) -> list[Comparison]:
    """Every finished arm against the one named ``static``, or else the only one that is static.

    Empty where there is no such arm, or it has not finished a seed.
    """
    arms, headline = source.summary.arms, source.summary.headline
    evolved = {trial.arm for trial in source.trials if trial.history.evolved}
    still = [arm for arm in arms if arm not in evolved]
    baseline = "static" if "static" in still else still[0] if len(still) == 1 else None
    if baseline is None or headline is None:
        return []
    before = {seed.seed: seed.test.value for seed in arms[baseline].seeds}
    found = []
    for arm, summary in arms.items():
        after = {seed.seed: seed.test.value for seed in summary.seeds}
        both = sorted(before.keys() & after.keys())
        if arm == baseline or not both:
            continue
        gains = [headline.merit(after[one]) - headline.merit(before[one]) for one in both]
        means = fmean(after[one] for one in both), fmean(before[one] for one in both)
        told = (arm, baseline, headline.label, *means, len(both), headline.higher_is_better)
        found.append(Comparison(*told, interval(gains)))
    return found


def interval(values: Sequence[float]) -> Interval | None:
    """Student's interval of 95% around the mean; None for fewer than two values.

    >>> low, high = interval([1.0, 2.0, 3.0])[1:]
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    if len(values) < 2:
        return None
    half = _T[min(len(values) - 1, len(_T)) - 1] * stdev(values) / len(values) ** 0.5
    return Interval(fmean(values), fmean(values) - half, fmean(values) + half)
