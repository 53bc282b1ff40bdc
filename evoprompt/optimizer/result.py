"""What an optimization found, and the file of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from evoprompt.errors import InputError
from evoprompt.evaluation import Failures
from evoprompt.eventlog import EventLog, to_line
from evoprompt.optimizer.folder import EVENTS, RESULT
from evoprompt.optimizer.outcome import Cost
from evoprompt.storage import write_whole
from evoprompt.types import Candidate, CandidateStats, legible
from evoprompt.validation import explain

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


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation over seeds; the latter is None for one seed."""

    mean: float
    std: float | None


@dataclass(frozen=True, slots=True)
class OptimizationResult:
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
        stopped: what ended it.
        log: every event.
        seed: of every choice.
        validation: its mean reward on the validation questions as it was measured, which flatters
            it, since they chose it.
        tested: whether ``value`` is that of the test set.
        failures: rollouts that came to nothing, of all that were made.
        writer_cost: what the proposer's language model has cost; None where it does not say.
        program_cost: the same of the program's own; None where nobody counts it.
        runs: the optimization with each seed, this one among them, if there were several.
    """

    best: Candidate
    value: float
    stderr: float
    asked: int
    candidates: Sequence[CandidateStats] = field(repr=False)
    curve: Sequence[Point] = field(repr=False)
    rollouts: int
    iterations: int
    stopped: str
    log: EventLog = field(repr=False)
    seed: int = 0
    validation: float = math.nan
    tested: bool = False
    failures: Failures = field(default_factory=Failures)
    writer_cost: Cost | None = None
    program_cost: Cost | None = None
    runs: Sequence[OptimizationResult] = field(default=(), repr=False)

    @property
    def spread(self) -> Spread:
        """Mean and standard deviation of ``value`` over the seeds."""
        values = [run.value for run in self.runs or (self,)]
        return Spread(fmean(values), stdev(values) if len(values) > 1 else None)

    def facts(self) -> list[str]:
        """How it went, in words: the value and what it is of, what failed, and what it cost."""
        error = f" ± {self.stderr:.3f}" if math.isfinite(self.stderr) else ""
        chosen = (
            ""
            if self.tested
            else (f", corrected for having been chosen by them ({self.validation:.3f} as measured)")
        )
        questions = f"{self.asked} {'test' if self.tested else 'validation'} questions"
        return [
            f"it ended: {self.stopped}",
            f"value {self.value:.3f}{error} on {questions}{chosen}",
            f"{self.rollouts:,} rollouts in {self.iterations:,} iterations, {self.failures}",
            f"the writer: {_told(self.writer_cost)}",
            f"the program: {_told(self.program_cost)}",
        ]

    def save(self, directory: str | Path) -> None:
        """Writes what was found, and the events where they are not there as a file.

        ``evoprompt report DIRECTORY`` draws them.
        """
        root = Path(directory)
        if self.log.path != root / EVENTS and not self.runs:
            write_whole(root / EVENTS, "".join(to_line(event) + "\n" for event in self.log))
        write_whole(root / "best_instruction.txt", legible(self.best.components) + "\n")
        saved = _Saved(
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            best=self.best.components,
            candidates=[_candidate(one) for one in self.candidates],
            facts=self.facts()[1:],
            spread=self.spread if self.runs else None,
            runs=[_Run(seed=run.seed, value=run.value) for run in self.runs],
        )
        write_whole(root / RESULT, saved.model_dump_json(indent=1) + "\n")


def _told(cost: Cost | None) -> str:
    return "what it cost is not counted" if cost is None else str(cost)


_Error = Annotated[float, BeforeValidator(lambda given: math.inf if given is None else given)]
"""A standard error, which may be infinite; JSON has null for that."""


class _Candidate(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="null")

    id: str
    components: Mapping[str, str]
    parents: tuple[str, ...]
    proposer: str
    value: float
    stderr: _Error
    asked: int


class _Run(BaseModel):
    seed: int
    value: float


class _Saved(BaseModel):
    """The file of a result."""

    model_config = ConfigDict(ser_json_inf_nan="null")

    best: Mapping[str, str]
    value: float
    stderr: _Error
    asked: int
    tested: bool
    validation: float
    failures: Failures
    writer_cost: Cost | None
    program_cost: Cost | None
    rollouts: int
    iterations: int
    stopped: str
    facts: Sequence[str]
    seed: int
    curve: Sequence[Point]
    candidates: Sequence[_Candidate]
    spread: Spread | None
    runs: Sequence[_Run]


_AS_THEY_ARE = (
    *("value", "stderr", "asked", "tested", "validation", "failures", "writer_cost"),
    *("program_cost", "rollouts", "iterations", "stopped", "seed", "curve"),
)


def _candidate(one: CandidateStats) -> _Candidate:
    found = one.candidate
    return _Candidate(
        id=found.id,
        components=found.components,
        parents=found.parents,
        proposer=found.proposer,
        value=one.weight,
        stderr=one.stderr,
        asked=one.groups,
    )


def read_result(root: Path) -> OptimizationResult:
    """What the directory of an optimization that has ended says.

    Raises:
        InputError: it has not ended, or its files are not as they were written.
    """
    path = root / RESULT
    if not path.is_file():
        raise InputError(
            f"{root} holds an optimization without a {RESULT}; required: one that has ended; wait, "
            "or go on with it by resume"
        )
    try:
        found = _Saved.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{path} is no result ({explain(error, _Saved)}); required: the file as it was written"
        ) from error
    candidates = [
        CandidateStats(
            Candidate(one.id, one.components, one.parents, proposer=one.proposer),
            one.value,
            one.stderr,
            one.asked,
        )
        for one in found.candidates
    ]
    best = [one.candidate for one in candidates if one.candidate.components == found.best]
    return OptimizationResult(
        **{name: getattr(found, name) for name in _AS_THEY_ARE},
        best=best[0] if best else Candidate.of(found.best),
        candidates=candidates,
        log=EventLog(root / (f"seed-{found.seed}" if found.runs else "") / EVENTS),
        runs=tuple(read_result(root / f"seed-{run.seed}") for run in found.runs),
    )


def best_of(runs: Sequence[OptimizationResult]) -> OptimizationResult:
    """The best of several seeds, chosen by validation questions, with all of them in ``runs``."""
    best = max(runs, key=lambda run: (run.validation, run.asked))
    last = runs[-1]  # what was spent until its end is what all have cost
    return replace(
        best, runs=tuple(runs), writer_cost=last.writer_cost, program_cost=last.program_cost
    )


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
