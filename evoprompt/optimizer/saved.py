"""What the folder of an optimization says when it is read again."""

from __future__ import annotations

import math
from pathlib import Path

from pydantic import BaseModel, ValidationError

from evoprompt.errors import InputError
from evoprompt.evaluation import Failures
from evoprompt.eventlog import EventLog
from evoprompt.optimizer.folder import EVENTS, RESULT
from evoprompt.optimizer.outcome import Cost
from evoprompt.optimizer.result import OptimizationResult, Point
from evoprompt.types import Candidate, CandidateStats
from evoprompt.validation import explain


class _One(BaseModel):
    id: str
    components: dict[str, str]
    parents: tuple[str, ...]
    proposer: str
    value: float
    stderr: float | None
    asked: int


class _Run(BaseModel):
    seed: int


class _Result(BaseModel):
    best: dict[str, str]
    value: float
    stderr: float | None
    asked: int
    tested: bool
    validation: float
    failures: Failures
    writer_cost: Cost | None
    program_cost: Cost | None
    rollouts: int
    iterations: int
    stopped: str
    seed: int
    curve: list[Point]
    candidates: list[_One]
    runs: list[_Run] = []


def read_result(root: Path) -> OptimizationResult:
    """What the directory of an optimization that has ended says.

    Raises:
        InputError: it has not ended, or its files are not as they were written.
    """
    path = root / RESULT
    if not path.is_file():
        raise InputError(
            f"{root} holds an optimization without a {RESULT}; required: one that has ended; wait, "
            f"or go on with it by resume={str(root)!r}"
        )
    try:
        found = _Result.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{path} is no result ({explain(error, _Result)}); required: the file as it was written"
        ) from error
    runs = tuple(read_result(root / f"seed-{run.seed}") for run in found.runs)
    candidates = [
        CandidateStats(
            Candidate(one.id, one.components, one.parents, proposer=one.proposer),
            one.value,
            math.inf if one.stderr is None else one.stderr,
            one.asked,
        )
        for one in found.candidates
    ]
    events = root / (f"seed-{found.seed}" if runs else "") / EVENTS
    return OptimizationResult(
        best=next(
            (one.candidate for one in candidates if one.candidate.components == found.best),
            Candidate.of(found.best),
        ),
        value=found.value,
        stderr=math.inf if found.stderr is None else found.stderr,
        asked=found.asked,
        candidates=candidates,
        curve=found.curve,
        rollouts=found.rollouts,
        iterations=found.iterations,
        stopped=found.stopped,
        log=EventLog(events),
        seed=found.seed,
        validation=found.validation,
        tested=found.tested,
        failures=found.failures,
        writer_cost=found.writer_cost,
        program_cost=found.program_cost,
        runs=runs,
    )
