"""Scores of episodes, and the evaluations that summarize them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import NamedTuple

from pydantic import BaseModel, Field

from evoprompt.support.errors import InputError
from evoprompt.support.failures import FailureCount
from evoprompt.support.text import many


@dataclass(frozen=True, slots=True)
class MainMetric:
    """Metric by which the policies and instructions of a task are compared.

    Attributes:
        name: its name in events and files, such as ``"accuracy"``.
        label: its name in reports, such as ``"share solved"``.
        higher_is_better: whether a higher value is better.

    >>> loss = MainMetric("loss", "loss", higher_is_better=False)
    >>> loss.merit(0.2) > loss.merit(0.5), loss.reaches(0.2, 0.3)
    (True, True)
    """

    name: str
    label: str
    higher_is_better: bool = True

    def merit(self, value: float) -> float:
        """Return ``value`` with the sign that makes larger values better."""
        return value if self.higher_is_better else -value

    def reaches(self, value: float, target: float) -> bool:
        """Return whether ``value`` is at least as good as ``target``."""
        return self.merit(value) >= self.merit(target)


REWARD = MainMetric("reward", "mean reward")
"""The mean reward itself."""


@dataclass(frozen=True, slots=True)
class Score:
    """Score of one episode, by the task.

    Attributes:
        reward: number that the policy is trained on; higher is better.
        feedback: description of errors and successes, for proposers to read.
        metrics: further numbers, by names of the task's choosing.
        kind: kind of the question, which evaluations report separately; empty for none.
    """

    reward: float
    feedback: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    kind: str = ""


class QuestionOutcome(NamedTuple):
    """Outcome of one question of an evaluation.

    ``value`` is the main metric, None if the question has no score.
    """

    question: str
    kind: str
    value: float | None


class Evaluation(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Means over the questions of one split; unmeasured values are left out.

    Attributes:
        value: the task's main metric.
        by_kind: the same for each kind of question; the task names the kinds.
        metrics: further means that the task measured, by names of its choosing. The table of
            results shows ``tool_calls`` if it is among them.
        failures: number of failed episodes and the reason of the first failure, if known.
        outcomes: outcome of every question in order, if known; in no JSON, as it may be long.
    """

    value: float
    by_kind: Mapping[str, float] = Field(default_factory=dict)
    metrics: Mapping[str, float] = Field(default_factory=dict)
    failures: FailureCount = FailureCount()
    outcomes: Sequence[QuestionOutcome] = Field(default=(), exclude=True, repr=False)

    @property
    def basis(self) -> str:
        """Return what ``value`` rests on, in words; empty if that is not known.

        >>> Evaluation(value=1.0, metrics={"unscored": 0.5}, failures=FailureCount(10, 20)).basis
        'over 10 of 20 rollouts; the other 10 have no score'
        """
        num_rollouts = self.failures.of
        if not num_rollouts:
            return ""
        unscored = round(self.metrics.get("unscored", 0.0) * num_rollouts)
        if not unscored:
            return f"over {many(num_rollouts, 'rollout')}"
        return (
            f"over {num_rollouts - unscored:,} of {many(num_rollouts, 'rollout')}; the other "
            f"{unscored:,} have no score"
        )

    @classmethod
    def of(
        cls, scores: Sequence[Score], main_metric: MainMetric, unscored: float | None = None
    ) -> Evaluation:
        """Return the means of ``scores``; for each metric, the mean of the scores that have it.

        Args:
            scores: a score for each episode, at least one.
            main_metric: main metric of the task, ``REWARD`` or a metric that every score has.
            unscored: share of the episodes without a score; None for a task that always scores.

        Raises:
            InputError: there is no score, or a score lacks the main metric.

        >>> evaluation = Evaluation.of([Score(1.0, kind="easy"), Score(0.0)], REWARD)
        >>> evaluation.value, dict(evaluation.by_kind)
        (0.5, {'easy': 1.0})
        """
        if not scores:
            raise InputError("no episode was scored; required: at least one to take a mean of")
        values = [value_of(score, main_metric) for score in scores]
        by_kind: dict[str, list[float]] = {}
        metrics: dict[str, list[float]] = {}
        for score, value in zip(scores, values, strict=True):
            if score.kind:
                by_kind.setdefault(score.kind, []).append(value)
            for name, number in score.metrics.items():
                metrics.setdefault(name, []).append(number)
        metrics.pop(main_metric.name, None)
        if unscored is not None:
            metrics["unscored"] = [unscored]
        return cls(
            value=fmean(values),
            by_kind={name: fmean(by_kind[name]) for name in sorted(by_kind)},
            metrics={name: fmean(numbers) for name, numbers in metrics.items()},
        )


def outcomes_of(
    questions: Sequence[str], scores: Sequence[Score | None], main_metric: MainMetric
) -> list[QuestionOutcome]:
    """Return the outcome of each question.

    For a question without a score, the kind is empty and the value is None.
    """
    return [
        QuestionOutcome(question, "", None)
        if score is None
        else QuestionOutcome(question, score.kind, value_of(score, main_metric))
        for question, score in zip(questions, scores, strict=True)
    ]


def value_of(score: Score, main_metric: MainMetric) -> float:
    """Return the number by which one episode is compared.

    Raises:
        InputError: the score lacks the main metric.
    """
    if main_metric == REWARD:
        return score.reward
    if main_metric.name not in score.metrics:
        raise InputError(
            f"a score has the metrics {', '.join(score.metrics) or 'none'}; required: the task's "
            f"main metric {main_metric.name!r}; add it in Task.score, or choose another main metric"
        )
    return score.metrics[main_metric.name]


class Spread(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Mean and standard deviation over seeds; the latter is None for one seed."""

    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of one or more values."""
        return cls(mean=fmean(values), std=stdev(values) if len(values) > 1 else None)
