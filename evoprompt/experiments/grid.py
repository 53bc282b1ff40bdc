"""What weights and what the instruction have brought: both before and after, two by two."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist, fmean

from evoprompt.errors import InputError
from evoprompt.evaluation import Headline
from evoprompt.experiments.best import best_trial
from evoprompt.experiments.config import load
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.evaluate import Subject, evaluate
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.gridfile import Cell, Grid, GridFile, Measured, Moment
from evoprompt.experiments.report.bands import interval
from evoprompt.plugins import build
from evoprompt.types import Written

Cells = dict[tuple[Moment, Moment], Measured]
"""The values of a trial, by weights and instruction."""


def grid(
    roots: Sequence[Path],
    split: str,
    arm: str | None = None,
    overrides: Sequence[str] = (),
    told: Callable[[str], None] = lambda line: None,
) -> Grid:
    """Evaluates every finished trial of an arm under both instructions, before and after training.

    Args:
        roots: output directories of runs of the same task.
        split: whose questions.
        arm: of all runs; by default of each run the arm whose trial did best on validation.
        overrides: settings that win over the runs', such as credentials.
        told: takes a line before each evaluation.

    Raises:
        InputError: a run has no finished trial of the arm, or their tasks are different ones.
    """
    found: list[tuple[RunDirectory, str, list[Cells]]] = []
    headlines: list[Headline] = []
    for root in roots:
        directory = RunDirectory.open(root)
        chosen = arm or best_trial(directory).trial.arm
        finished = [
            trial
            for trial in directory.trials()
            if trial.arm == chosen and directory.trial(trial).finished is not None
        ]
        if not finished:
            raise InputError(
                f"{root} has no finished trial of the arm {chosen!r}; required: at least one; "
                f"continue it with evoprompt run {root} --resume, or choose another --arm"
            )
        headlines.append(build("task", directory.config.task).headline)
        cells = [_measured(directory, one, split, overrides, told) for one in finished]
        found.append((directory, chosen, cells))
    trials = [one for _, _, cells in found for one in cells]
    if len(set(headlines)) > 1 or len({frozenset(values) for values in trials}) > 1:
        raise InputError(
            "the runs are of different tasks or hosts, so that a mean over them says nothing; "
            "required: runs to be compared; make a grid of each"
        )
    counts = {one.questions for values in trials for one in values.values()}
    if len(counts) > 1:
        raise InputError(
            f"the runs have {', '.join(map(str, sorted(counts)))} questions in the split "
            f"{split!r}; required: the same; make a grid of each"
        )
    for directory, chosen, cells in found:
        kept = GridFile.read(directory.root)
        kept.keep(_grid(chosen, split, headlines[0], cells))
        kept.write(directory.root)
    return _grid(", ".join(dict.fromkeys(arm for _, arm, _ in found)), split, headlines[0], trials)


def _grid(arm: str, split: str, headline: Headline, trials: Sequence[Cells]) -> Grid:
    questions = next(iter(trials[0].values())).questions
    cells = [
        _cell(weights, instruction, [one[weights, instruction].value for one in trials], questions)
        for weights, instruction in trials[0]
    ]
    return Grid(
        arm=arm,
        split=split,
        questions=questions,
        headline=headline,
        trials=len(trials),
        cells=cells,
        gains=_gains(trials),
    )


def _measured(
    directory: RunDirectory,
    trial: TrialId,
    split: str,
    overrides: Sequence[str],
    told: Callable[[str], None],
) -> Cells:
    """The cells of one trial, each kept in the directory as soon as it is there."""
    config = load(directory.root / "config.yaml", overrides)
    files = directory.trial(trial)
    result = files.finished
    assert result is not None
    before = directory.before(trial)
    policies: dict[Moment, Path | None] = {
        "before": None if before is None else directory.trial(before).policy,
        "after": files.policy,
    }
    if config.is_frozen(trial.arm):
        del policies["after"]
    texts: dict[Moment, Written] = {"before": _first(files.events), "after": result.best}
    kept = GridFile.read(directory.root)
    known = kept.measured
    found: Cells = {}
    for weights, policy in policies.items():
        for instruction, written in texts.items():
            place = None if policy is None else str(policy.relative_to(directory.root))
            key = _key([split, trial.arm, place, written, config.task, config.host_of(trial.arm)])
            if key not in known:
                told(f"{trial}: weights {weights}, instruction {instruction}")
                answer = evaluate(Subject(config, trial, policy, written), split)
                known[key] = Measured(value=answer.evaluation.value, questions=answer.questions)
                kept.write(directory.root)
            found[weights, instruction] = known[key]
    return found


def _first(events: Path) -> Written:
    """The instruction that a trial began with."""
    for event in read_events(events):
        if event["event"] == "seeded":
            return dict(event["components"])
    raise InputError(f"{events} names no instruction that the trial began with; required: one")


def _key(values: Sequence[object]) -> str:
    said = json.dumps(values, sort_keys=True, default=str)
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _gains(trials: Sequence[Cells]) -> dict[str, tuple[float, float | None, float | None]]:
    def values(weights: Moment, instruction: Moment) -> list[float]:
        return [one[weights, instruction].value for one in trials]

    start = values("before", "before")
    gains = {"instruction": _minus(values("before", "after"), start)}
    if ("after", "after") in trials[0]:
        gains["weights"] = _minus(values("after", "before"), start)
        gains["both"] = _minus(values("after", "after"), start)
        sums = [a + b for a, b in zip(gains["instruction"], gains["weights"], strict=True)]
        gains["both, beyond their sum"] = _minus(gains["both"], sums)
    return {name: (fmean(numbers), *_over_trials(numbers)) for name, numbers in gains.items()}


def _minus(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(one, other, strict=True)]


def _cell(weights: Moment, instruction: Moment, values: Sequence[float], questions: int) -> Cell:
    mean = fmean(values)
    low, high = _over_trials(values) if len(values) > 1 else _of_share(mean, questions)
    return Cell(weights=weights, instruction=instruction, value=mean, low=low, high=high)


def _over_trials(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Student's 95 % interval of a mean; nothing of one value."""
    found = interval(values)
    return (None, None) if found is None else (found.low, found.high)


def _of_share(mean: float, questions: int) -> tuple[float | None, float | None]:
    """Wilson's 95 % interval, which for values from 0 to 1 that are no shares is too wide."""
    if not 0 <= mean <= 1:
        return None, None
    z = NormalDist().inv_cdf(0.975)
    middle = (mean + z * z / (2 * questions)) / (1 + z * z / questions)
    half = math.sqrt(mean * (1 - mean) / questions + z * z / (4 * questions**2))
    half *= z / (1 + z * z / questions)
    return max(middle - half, 0.0), min(middle + half, 1.0)
