"""The folder of an optimization.

::

    DIR/
      settings.yaml           what was asked for
      journal.jsonl           every rollout and every answer of the proposer, as they come
      events.jsonl            what happened
      best_instruction.txt
      result.json             value, rollouts, curve and candidates
      lm-spending.jsonl       what the proposer's language model has spent
      report.html report.png  if ``result.report(DIR)`` is called
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, JsonValue, ValidationError

from evoprompt.checkpoint import is_temporary, require_folder, write_whole
from evoprompt.errors import InputError
from evoprompt.eventlog import EventLog, to_line
from evoprompt.frozen.data import ExampleT, Item
from evoprompt.frozen.journal import JOURNAL
from evoprompt.frozen.result import OptimizationResult, Point
from evoprompt.runs import yamlfile
from evoprompt.types import Candidate, CandidateStats, legible
from evoprompt.validation import explain

SETTINGS = "settings.yaml"
EVENTS = "events.jsonl"
RESULT = "result.json"
_FREE = frozenset({"budget", "seconds", "patience"})
"""Settings that may change on a resume: they say when to stop, and decide nothing before."""


def begin(root: Path, settings: Mapping[str, JsonValue], resume: bool) -> None:
    """Makes ``root`` ready to be written, or to be written on.

    Raises:
        InputError: a new run's folder is not empty, or an old one's settings are others.
    """
    require_folder(root, "resume" if resume else "directory")
    known = root / SETTINGS
    if resume:
        if not known.is_file():
            raise InputError(
                f"resume is {root}, which holds no {SETTINGS}; required: the directory of an "
                "optimization that was begun; check the path"
            )
        before = yamlfile.read(known)
        for name in sorted((before.keys() | settings.keys()) - _FREE):
            if before.get(name) != settings.get(name):
                raise InputError(
                    f"{name} is {_shown(settings.get(name))}, and {root} was begun with "
                    f"{_shown(before.get(name))}; required: the same; restore it, or begin anew in "
                    "another directory"
                )
        (root / EVENTS).unlink(missing_ok=True)  # they happen again, up to where it was stopped
    elif root.is_dir() and not all(map(is_temporary, root.iterdir())):
        raise InputError(
            f"directory is {root}, which is not empty; required: a new one; name another, or "
            f"continue it with resume={str(root)!r}"
        )
    write_whole(known, yamlfile.dump(settings))


def is_begun(root: Path) -> bool:
    """Whether an optimization was begun in ``root``."""
    return (root / SETTINGS).is_file()


def has_ended(root: Path) -> bool:
    """Whether an optimization has left its result in ``root``."""
    return is_begun(root) and (root / RESULT).is_file()


def digest_of(items: Sequence[Item[ExampleT]]) -> str:
    """What tells one set of examples from another."""
    said = json.dumps([(item.question.text, item.question.answers) for item in items])
    return f"{len(items)} examples, {hashlib.blake2b(said.encode(), digest_size=8).hexdigest()}"


def journal_of(root: Path) -> Path:
    """The file of rollouts and answers."""
    return root / JOURNAL


def write_files(result: OptimizationResult, root: Path) -> None:
    """Writes what was found, and the events where they are not there as a file."""
    if result.log.path != root / EVENTS and not result.runs:
        write_whole(root / EVENTS, "".join(to_line(event) + "\n" for event in result.log))
    write_whole(root / "best_instruction.txt", legible(result.best.components) + "\n")
    found = {
        "best": dict(result.best.components),
        "value": result.value,
        "stderr": _finite(result.stderr),
        "asked": result.asked,
        "rollouts": result.rollouts,
        "iterations": result.iterations,
        "stopped": result.stopped,
        "seed": result.seed,
        "curve": [list(point) for point in result.curve],
        "candidates": [
            {
                "id": one.candidate.id,
                "components": dict(one.candidate.components),
                "parents": list(one.candidate.parents),
                "proposer": one.candidate.proposer,
                "value": one.weight,
                "stderr": _finite(one.stderr),
                "asked": one.groups,
            }
            for one in result.candidates
        ],
    }
    if result.runs:
        found["spread"] = result.spread.model_dump()
        found["runs"] = [{"seed": run.seed, "value": run.value} for run in result.runs]
    write_whole(root / RESULT, json.dumps(found, ensure_ascii=False, indent=1) + "\n")


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
    rollouts: int
    iterations: int
    stopped: str
    seed: int
    curve: list[Point]
    candidates: list[_One]
    runs: list[_Run] = []


def read_files(root: Path) -> OptimizationResult:
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
    runs = tuple(read_files(root / f"seed-{run.seed}") for run in found.runs)
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
        next(
            (one.candidate for one in candidates if one.candidate.components == found.best),
            Candidate.of(found.best),
        ),
        found.value,
        math.inf if found.stderr is None else found.stderr,
        found.asked,
        candidates,
        found.curve,
        found.rollouts,
        found.iterations,
        found.stopped,
        EventLog(events),
        found.seed,
        runs,
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _shown(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
