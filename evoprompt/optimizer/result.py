"""What an optimization found, and the file of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, computed_field

from evoprompt.lm.budget import Charge
from evoprompt.log.evaluation import Spread
from evoprompt.log.eventlog import EventLog, to_line
from evoprompt.optimizer.folder import EVENTS, RESULT
from evoprompt.support.errors import InputError
from evoprompt.support.failures import FailureCount
from evoprompt.support.storage import write_whole
from evoprompt.support.validation import read_json
from evoprompt.types import Candidate, CandidateStats, legible

_RESAMPLES = 400


class Point(NamedTuple):
    """Where an optimization stood when its incumbent changed.

    Attributes:
        rollouts: spent so far, validation included.
        value: mean reward of the incumbent on the validation questions that it was asked.
        text: the incumbent.
    """

    rollouts: int
    value: float
    text: str


class OptimizationResult(BaseModel):
    """What :func:`~evoprompt.optimize` found; printed without its candidates, curve, log and runs.

    Attributes:
        best: the best candidate; ``best.text``, or ``best.components`` of several.
        value: its mean reward on the test set; without one, on the validation questions that it
            was asked, corrected for the luck of having been chosen by them.
        stderr: standard error of ``value``, over the questions.
        asked: how many questions that were; those that the program failed at have no reward.
        candidates: everybody who was tried, in order of birth, with the mean reward on the
            validation questions asked (of the training questions, where there were none).
        curve: (rollouts, value, text) whenever there was a new incumbent, or more was known of it.
        rollouts: spent in all.
        iterations: of proposing and trying.
        proposer_calls: requests to the proposer, those before a resume included.
        stopped: what ended it.
        log: every event.
        seed: of every choice.
        validation: its mean reward on the validation questions as it was measured, which flatters
            it, since they chose it.
        tested: whether ``value`` is that of the test set.
        failures: rollouts that came to nothing, of all that were made.
        writer_cost: what the proposer's language model has cost; None where it does not say.
        program_cost: the same of the program's own; None where it is not counted.
        runs: the optimization with each seed, this one among them, if there were several.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, ser_json_inf_nan="strings")

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
    validation: float = math.nan
    tested: bool = False
    failures: FailureCount = FailureCount()
    writer_cost: Charge | None = None
    program_cost: Charge | None = None
    runs: Sequence[OptimizationResult] = Field(default=(), repr=False)

    @property
    def spread(self) -> Spread:
        """Mean and standard deviation of ``value`` over the seeds."""
        return Spread.of([run.value for run in self.runs or (self,)])

    @computed_field(repr=False)  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def facts(self) -> Sequence[str]:
        """How it went, in words: the value and what it is of, what failed, and what it cost."""
        error = f" ± {self.stderr:.3f}" if math.isfinite(self.stderr) else ""
        questions = f"{self.asked} test questions"
        if not self.tested:
            measured = f"{self.validation:.3f} as measured"
            questions = (
                f"{self.asked} validation questions, corrected for having been chosen by them "
                f"({measured})"
            )
        writer = [] if self.writer_cost is None else [f"the writer: {self.writer_cost}"]
        return [
            f"it ended: {self.stopped}",
            f"value {self.value:.3f}{error} on {questions}",
            f"{self.rollouts:,} rollouts and {self.proposer_calls:,} requests to the proposer in "
            f"{self.iterations:,} iterations, {self.failures}",
            *writer,
            f"the program: {self.program_cost or 'what it cost is not counted'}",
        ]

    def save(self, directory: str | Path) -> None:
        """Writes what was found, and the events where they are not there as a file.

        ``evoprompt report DIRECTORY`` draws them.
        """
        root = Path(directory)
        if self.log.path != root / EVENTS and not self.runs:
            write_whole(root / EVENTS, "".join(to_line(event) + "\n" for event in self.log))
        write_whole(root / "best_instruction.txt", legible(self.best.components) + "\n")
        write_whole(root / RESULT, self.model_dump_json(indent=1) + "\n")


def read_result(root: Path) -> OptimizationResult:
    """What the directory of an optimization that has ended says, without the events.

    Raises:
        InputError: it has not ended, or its file is not as it was written.
    """
    path = root / RESULT
    if not path.is_file():
        raise InputError(
            f"{root} holds an optimization without a {RESULT}; required: one that has ended; wait, "
            "or go on with it by resume"
        )
    return read_json(path, OptimizationResult, "is no result", "optimize into another directory")


def best_of(runs: Sequence[OptimizationResult]) -> OptimizationResult:
    """The best of several seeds, chosen by validation questions, with all of them in ``runs``."""
    best = max(runs, key=lambda run: (run.validation, run.asked))
    last = runs[-1]  # what was spent until its end is what all have cost
    costs = {"writer_cost": last.writer_cost, "program_cost": last.program_cost}
    return best.model_copy(update={"runs": tuple(runs), **costs})


def corrected(best: Mapping[str, float], others: Sequence[Mapping[str, float]], seed: int) -> float:
    """The mean reward of ``best``, had it been chosen by other questions.

    The best of many is chosen by the questions that it did well at, so its mean there is too high.
    Here the choice is made again on questions that are drawn from them with repetition, and whoever
    is chosen counts with the questions that were not drawn (the bootstrap bias correction of
    Tsamardinos, Greasidou and Borboudakis, 2018). Where one that was given up early was not asked,
    it counts for the choice like ``best``, and for the value by its mean difference from that.

    Args:
        best: mean reward by question; at least one.
        others: the same of those that it was preferred to.
        seed: of the draws.
    """
    questions = list(best)
    known = [one for one in others if not one.keys().isdisjoint(best)]
    mean = math.fsum(best.values()) / len(best)
    if not known or len(questions) < 2:
        return mean
    own = np.array([best[name] for name in questions])
    rewards = np.array([[one.get(name, np.nan) for name in questions] for one in (best, *known)])
    asked = ~np.isnan(rewards)
    gains = np.where(asked, rewards - own, 0.0)
    usual = gains.sum(axis=1) / asked.sum(axis=1)
    rewards = np.where(asked, rewards, own + usual[:, None])
    draws = np.random.default_rng(seed).multinomial(
        len(questions), np.full(len(questions), 1 / len(questions)), size=_RESAMPLES
    )
    left = draws == 0
    draws, left = draws[left.any(axis=1)], left[left.any(axis=1)]
    if not len(draws):
        return mean
    totals = draws @ gains.T
    chosen = (totals > totals[:, :1] + 1e-9).any(axis=1) * totals.argmax(axis=1)  # ties: the best
    found = (rewards[chosen] * left).sum(axis=1) / left.sum(axis=1)
    return float(min(found.mean(), mean))
