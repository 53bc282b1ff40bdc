"""Result of a run in words: the arms compared with the arm of a fixed instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from evoprompt.experiments.intervals import Interval, interval
from evoprompt.experiments.report.source import Source
from evoprompt.log.evaluation import MainMetric
from evoprompt.support.text import many


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure for comparing the arms, and its format.

    Attributes:
        main_metric: of the task.
        questions: number of questions of the test split; 0 if it is not known.
        is_share: whether it is known that every question is either solved, 1, or not, 0.
    """

    main_metric: MainMetric
    questions: int
    is_share: bool

    @classmethod
    def of(cls, source: Source, main_metric: MainMetric) -> Measure:
        """Return the measure of the finished trials of a run."""
        tests = [trial.outcomes for trial in source.trials if trial.outcomes]
        values = {outcome.value for test in tests for outcome in test}
        return cls(
            main_metric, max(map(len, tests), default=0), bool(tests) and values <= {0, 1, None}
        )

    def text(self, value: float) -> str:
        """Return a value as text, such as ``99 %`` or ``0.512``."""
        if not self.is_share:
            return f"{value:.3f}"
        return f"{100 * value:.1f}".removesuffix(".0") + " %"

    def gain(self, value: float) -> str:
        """Return a difference as text, such as ``+53 points`` or ``+0.120``."""
        if not self.is_share:
            return f"{value:+.3f}"
        return f"{100 * value:+.1f}".removesuffix(".0") + " points"

    @property
    def of_questions(self) -> str:
        """Return a text such as ``of 300 test questions``."""
        return f"of {many(self.questions, 'test question')}" if self.questions else "of the test"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Result of a finished arm, compared with the arm of a fixed instruction.

    Attributes:
        arm: its name.
        value: mean of the main metric over its seeds.
        seeds: number of seeds in which both were finished; its own if nothing is compared.
        baseline: the other arm; empty for that arm itself, and if there is none.
        gain: by which it is better, seed by seed, with its interval; None for fewer than two seeds.
        flipped: numbers of questions that became right, and that became wrong, over all those
            seeds; None if they are not known.
        is_same_text: whether both were tested under the same instruction in each of those seeds.
    """

    arm: str
    value: float
    seeds: int
    baseline: str = ""
    gain: Interval | None = None
    flipped: tuple[int, int] | None = None
    is_same_text: bool = False

    @property
    def is_shown(self) -> bool:
        """Return whether the interval excludes zero."""
        return self.gain is not None and not self.gain.low <= 0 <= self.gain.high

    @property
    def verdict(self) -> str:
        """Return a sentence on the difference, for readers without statistics."""
        if not self.baseline:
            return ""
        if self.gain is None:
            return "Not shown: one seed only, so this may be chance; run several (--seeds)."
        if not self.is_shown:
            return "Not shown: chance alone may explain the difference."
        return f"Shown: {'better' if self.gain.mean > 0 else 'worse'} than chance explains."


def rankings(source: Source) -> list[Ranking]:
    """Return the finished arms, best first, each compared with the arm of a fixed instruction.

    That is the arm named ``static``, or else the only one of its kind.
    """
    arms, main_metric = source.summary.arms, source.summary.main_metric
    if main_metric is None:
        return []
    measure = Measure.of(source, main_metric)
    still = [arm for arm in source.static_arms if arm in arms]
    baseline = "static" if "static" in still else still[0] if len(still) == 1 else ""
    finished_arms = []
    for arm, summary in arms.items():
        after = {seed.seed: seed.test.value for seed in summary.seeds}
        before = {seed.seed: seed.test.value for seed in arms[baseline].seeds} if baseline else {}
        texts = {seed.seed: seed.best for seed in arms[baseline].seeds} if baseline else {}
        both = sorted(before.keys() & after.keys())
        if arm == baseline or not both:
            finished_arms.append(Ranking(arm, summary.test.mean, len(after)))
            continue
        gains = [
            main_metric.merit(after[number]) - main_metric.merit(before[number]) for number in both
        ]
        gain = interval(gains)
        if gain is not None and measure.is_share:  # no arm solves more than all questions
            against = main_metric.merit(fmean(before[number] for number in both))
            lowest, highest = sorted(main_metric.merit(end) - against for end in (0.0, 1.0))
            gain = gain._replace(low=max(gain.low, lowest), high=min(gain.high, highest))
        flipped = _flipped(source, arm, baseline, both, main_metric)
        finished_arms.append(
            Ranking(
                arm,
                fmean(after[number] for number in both),
                len(both),
                baseline,
                gain,
                flipped if measure.is_share else None,
                all(seed.best == texts[seed.seed] for seed in summary.seeds if seed.seed in both),
            )
        )
    return sorted(finished_arms, key=lambda ranking: main_metric.merit(ranking.value), reverse=True)


def _flipped(
    source: Source, arm: str, baseline: str, seeds: Sequence[int], main_metric: MainMetric
) -> tuple[int, int] | None:
    tests: dict[tuple[str, int], Mapping[str, float | None]] = {
        (trial.arm, trial.seed): {outcome.question: outcome.value for outcome in trial.outcomes}
        for trial in source.trials
    }
    pairs = [(tests[arm, seed], tests[baseline, seed]) for seed in seeds]
    if not all(after and before for after, before in pairs):
        return None
    right = wrong = 0
    for after, before in pairs:
        for question, now in after.items():
            old = before.get(question)
            if now is not None and old is not None:
                right += main_metric.merit(now) > main_metric.merit(old)
                wrong += main_metric.merit(now) < main_metric.merit(old)
    return right, wrong
