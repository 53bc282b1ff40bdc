"""The result in a sentence: an arm against the arm whose instruction stayed as it was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from evoprompt.experiments.report.bands import Interval, interval
from evoprompt.experiments.report.source import Source, Trial


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
        difference: of the two means, positive where ``arm`` is better.
        gain: the same seed by seed, with its interval; None for one seed.
    """

    arm: str
    baseline: str
    label: str
    value: float
    against: float
    seeds: int
    difference: float
    gain: Interval | None

    @property
    def verdict(self) -> str:
        """What the interval says, for people who read no intervals."""
        if self.gain is None:
            return "One seed only, so this may be chance: run several (--seeds)."
        if self.gain.low > 0:
            return "Better, beyond what chance explains."
        if self.gain.high < 0:
            return "Worse, beyond what chance explains."
        return "No difference beyond what chance explains."


def comparisons(source: Source) -> list[Comparison]:
    """Every finished arm against the one named ``static``, or else the only one that is static.

    Empty where there is no such arm, or it has not finished a seed. Runs that are told side by side
    may differ in everything, so each is compared with itself alone.
    """
    if source.runs:
        return [one for run in source.runs for one in comparisons(run)]
    arms = source.summary.arms
    headline = source.summary.headline
    evolved = {trial.arm for trial in source.trials if trial.history.evolved}
    still = [arm for arm in arms if arm not in evolved]
    named = [arm for arm in still if arm.split(": ")[-1] == "static"]  # a run's name is before it
    baseline = named[0] if named else still[0] if len(still) == 1 else None
    if baseline is None or headline is None:
        return []
    sign = 1 if headline.higher_is_better else -1
    before = {seed.seed: seed.test.value for seed in arms[baseline].seeds}
    found = []
    for arm, summary in arms.items():
        after = {seed.seed: seed.test.value for seed in summary.seeds}
        both = sorted(before.keys() & after.keys())
        if arm == baseline or not both:
            continue
        gain = interval([sign * (after[seed] - before[seed]) for seed in both])
        means = fmean(after[seed] for seed in both), fmean(before[seed] for seed in both)
        difference = sign * (means[0] - means[1])
        found.append(Comparison(arm, baseline, headline.label, *means, len(both), difference, gain))
    return found


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """The trial with the best last evaluation, before all those in which instructions evolved."""

    def rank(trial: Trial) -> tuple[bool, float]:
        merit = trial.history.merit
        return trial.history.evolved, -math.inf if merit is None else merit

    return max((one for one in trials if one.history.candidates), key=rank, default=None)
