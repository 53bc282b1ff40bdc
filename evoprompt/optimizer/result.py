"""Result of an optimization, and its file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, Field, computed_field

from evoprompt.lm.budget import Charge
from evoprompt.log.evaluation import Spread
from evoprompt.log.eventlog import EventLog, to_line
from evoprompt.optimizer.folder import EVENTS, RESULT
from evoprompt.optimizer.html import result_html
from evoprompt.optimizer.results import mean_of
from evoprompt.support.errors import InputError
from evoprompt.support.failures import FailureCount
from evoprompt.support.storage import write_whole
from evoprompt.support.validation import read_json
from evoprompt.types import Candidate, CandidateStats, legible

_RESAMPLES = 400


class Point(NamedTuple):
    """Point of the curve of an optimization, at a change of its incumbent.

    Attributes:
        rollouts: number of rollouts so far, validation included.
        value: mean reward of the incumbent on the validation questions in use.
        text: the incumbent.
    """

    rollouts: int
    value: float
    text: str


class LimitedMetric(NamedTuple):
    """Means of a metric that has a limit, on the questions that ``before`` and ``after`` share.

    Attributes:
        name: name of the metric.
        limit: maximum of its mean.
        before: mean of the first seed.
        after: mean of the best candidate.
    """

    name: str
    limit: float
    before: float
    after: float

    @classmethod
    def of(
        cls,
        name: str,
        limit: float,
        seed_values: Mapping[str, float],
        best_values: Mapping[str, float],
        questions: Sequence[str],
    ) -> LimitedMetric:
        """Return the means on those of ``questions`` on which both candidates have the metric."""
        shared = [question for question in questions if question in seed_values]
        shared = [question for question in shared if question in best_values]
        return cls(name, limit, mean_of(seed_values, shared), mean_of(best_values, shared))

    def __str__(self) -> str:
        return (
            f"{self.name} with a limit of {self.limit:g}: on the same questions {self.before:.5g} "
            f"with the seed instruction and {self.after:.5g} with the best"
        )


class OptimizationResult(
    BaseModel, frozen=True, arbitrary_types_allowed=True, ser_json_inf_nan="strings"
):
    """Result of :func:`~evoprompt.optimize`; printed without its candidates, curve, log and runs.

    Attributes:
        best: the best candidate; ``best.text``, or ``best.components`` of several.
        value: mean reward of the best candidate on the test set; without a test set, on the
            validation questions in use, corrected for the luck of having been chosen by them.
        stderr: standard error of ``value``, over the questions.
        asked: number of these questions with a reward.
        unscored: number of these questions without a reward, as the program failed at them; they
            count for nothing in ``value``.
        candidates: all candidates that were tried, in order of creation, with the mean reward on
            the validation questions in use (on the training questions, if there were none).
        curve: (rollouts, value, text) at every change of the incumbent or of its value.
        rollouts: number of all rollouts.
        iterations: number of iterations, each of which proposes and tries.
        proposer_calls: requests to the proposer, those before a resume included.
        stopped: reason why the optimization ended.
        log: every event.
        seed: seed of every choice.
        validation: mean reward of the best candidate on the validation questions as measured,
            which flatters it, since it was chosen by them.
        before: mean reward of the first seed on the validation questions that both it and the best
            candidate have answered.
        after: mean reward of the best candidate on the same questions.
        shared: number of these questions.
        limited: means of each metric that has a limit, before and after.
        tested: whether ``value`` is that of the test set.
        failures: rollouts that failed, of all rollouts.
        writer_cost: cost of the proposer's language model; None if it is not reported.
        program_cost: cost of the program's own models; None if it is not counted.
        runs: the optimization with each seed, this one among them, if there were several.
    """

    best: Candidate
    value: float
    stderr: float
    asked: int
    candidates: Sequence[CandidateStats] = Field(repr=False)
    curve: Sequence[Point] = Field(repr=False)
    rollouts: int
    iterations: int
    stopped: str
    log: EventLog = Field(default_factory=EventLog, repr=False, exclude=True)
    seed: int = 0
    proposer_calls: int = 0
    unscored: int = 0
    validation: float = math.nan
    before: float = math.nan
    after: float = math.nan
    shared: int = 0
    limited: Sequence[LimitedMetric] = ()
    tested: bool = False
    failures: FailureCount = FailureCount()
    writer_cost: Charge | None = None
    program_cost: Charge | None = None
    runs: Sequence[OptimizationResult] = Field(default=(), repr=False)

    @property
    def spread(self) -> Spread:
        """Return the mean and the standard deviation of ``value`` over the seeds."""
        return Spread.of([run.value for run in self.runs or (self,)])

    @computed_field(repr=False)  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def facts(self) -> Sequence[str]:
        """Return a summary in sentences: the value and its questions, the failures, the cost."""
        error = f" ± {self.stderr:.3f}" if math.isfinite(self.stderr) else ""
        number = f"{self.asked}"
        if self.unscored:
            number = f"{self.asked} of {self.asked + self.unscored}"
        questions = f"{number} test questions"
        if not self.tested:
            measured = f"{self.validation:.3f} as measured"
            questions = (
                f"{number} validation questions, corrected for the choice by them ({measured})"
            )
        if self.unscored:
            questions += f"; the program failed at the other {self.unscored}"
        gain = [
            f"on the {self.shared} validation questions of both, {self.before:.3f} with the seed "
            f"instruction and {self.after:.3f} with the best"
        ]
        gain = gain if self.shared else []
        writer = [] if self.writer_cost is None else [f"the proposer: {self.writer_cost}"]
        return [
            f"the optimization ended: {self.stopped}",
            f"value {self.value:.3f}{error} on {questions}",
            *gain,
            *map(str, self.limited),
            f"{self.rollouts:,} rollouts and {self.proposer_calls:,} requests to the proposer in "
            f"{self.iterations:,} iterations, {self.failures}",
            *writer,
            f"the program: {self.program_cost or 'its cost is not counted'}",
        ]

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the changes of the first seed's text, facts and curve."""
        seed = self.candidates[0].candidate.components
        curve = [(point.rollouts, point.value) for point in self.curve]
        return result_html(seed, self.best.components, self.facts, curve)

    def save(self, directory: str | Path) -> None:
        """Write the result, and the events if they are not in a file of ``directory`` yet.

        ``evoprompt report DIRECTORY`` draws them.
        """
        root = Path(directory)
        if self.log.path != root / EVENTS and not self.runs:
            write_whole(root / EVENTS, "".join(to_line(event) + "\n" for event in self.log))
        write_whole(root / "best_instruction.txt", legible(self.best.components) + "\n")
        write_whole(root / RESULT, self.model_dump_json(indent=1) + "\n")


def read_result(root: Path) -> OptimizationResult:
    """Read the result in the directory of an optimization that has ended, without the events.

    Raises:
        InputError: the optimization has not ended, or the file of its result was changed.
    """
    path = root / RESULT
    if not path.is_file():
        raise InputError(
            f"{root} holds an optimization without a {RESULT}; required: one that has ended; wait, "
            "or go on with it by resume"
        )
    return read_json(path, OptimizationResult, "is no result", "optimize into another directory")


def best_of(runs: Sequence[OptimizationResult]) -> OptimizationResult:
    """Return the best of several seeds by validation questions, with all of them in ``runs``."""
    best = max(runs, key=lambda run: (run.validation, run.asked))
    last_run = runs[-1]  # its costs include those of all earlier runs
    costs = {"writer_cost": last_run.writer_cost, "program_cost": last_run.program_cost}
    return best.model_copy(update={"runs": tuple(runs), **costs})


def corrected(
    best: Mapping[str, float], alternatives: Sequence[Mapping[str, float]], seed: int
) -> float:
    """Return the mean reward of ``best``, as if it had been chosen by different questions.

    The best of many is chosen by the questions that it did well at, so its mean there is too high.
    Here the choice is repeated on questions that are drawn from them with repetition, and the
    chosen candidate counts with the questions that were not drawn (the bootstrap bias correction
    of Tsamardinos, Greasidou and Borboudakis, 2018). On a question without a reward of a candidate
    that was dropped early, this candidate counts for the choice like ``best``, and for the value by
    its mean difference from ``best``.

    Args:
        best: mean reward of the best candidate by question; at least one.
        alternatives: the same of the candidates to which it was preferred.
        seed: seed of the draws.
    """
    questions = list(best)
    comparable = [rewards for rewards in alternatives if not rewards.keys().isdisjoint(best)]
    mean = math.fsum(best.values()) / len(best)
    if not comparable or len(questions) < 2:
        return mean
    best_row = np.array([best[name] for name in questions])
    rewards = np.array(
        [[means.get(name, np.nan) for name in questions] for means in (best, *comparable)]
    )
    is_measured = ~np.isnan(rewards)
    gains = np.where(is_measured, rewards - best_row, 0.0)
    mean_gains = gains.sum(axis=1) / is_measured.sum(axis=1)
    rewards = np.where(is_measured, rewards, best_row + mean_gains[:, None])
    draws = np.random.default_rng(seed).multinomial(
        len(questions), np.full(len(questions), 1 / len(questions)), size=_RESAMPLES
    )
    is_left_out = draws == 0
    draws, is_left_out = draws[is_left_out.any(axis=1)], is_left_out[is_left_out.any(axis=1)]
    if not len(draws):
        return mean
    totals = draws @ gains.T
    is_beaten = (totals > totals[:, :1] + 1e-9).any(axis=1)  # of equal totals the best is chosen
    chosen_rows = is_beaten * totals.argmax(axis=1)
    values = (rewards[chosen_rows] * is_left_out).sum(axis=1) / is_left_out.sum(axis=1)
    return float(min(values.mean(), mean))
