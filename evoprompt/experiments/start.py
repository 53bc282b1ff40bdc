"""Where a trial starts: with which policy, and with which instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evoprompt.agents.tasks import Task
from evoprompt.candidates import Seed
from evoprompt.errors import InputError
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.pool import Fitted, fit
from evoprompt.experiments.sections import EngineSection
from evoprompt.types import Written


@dataclass(frozen=True, slots=True)
class Start:
    """Where the arm before this one ended.

    Attributes:
        policy: folder of its trained policy.
        written: its best instruction, by components.
    """

    policy: Path
    written: Written


def start_of(directory: RunDirectory, trial: TrialId) -> Start | None:
    """Where ``trial`` starts, None for the task's own policy and instructions.

    Raises:
        InputError: the trial before it has not finished.
    """
    before = directory.before(trial)
    if before is None:
        return None
    files = directory.trial(before)
    result = files.finished
    if result is None:
        raise InputError(
            f"{trial} starts after {before}, which has not finished; required: its result; run "
            "it first"
        )
    return Start(files.policy, result.best)


def seeds_of(
    config: RunConfig, trial: TrialId, task: Task, section: EngineSection, start: Start | None
) -> tuple[Sequence[Seed], Sequence[str]]:
    """The instructions that a trial starts from, and what a person should know of them.

    An arm without a proposer keeps the first one.

    Raises:
        InputError: it starts from a pool of which the task can use nothing.
    """
    taken_over = _taken_over(config, trial, task, section)
    seeds: Sequence[Seed]
    if taken_over is not None:
        seeds = taken_over.seeds
    else:
        usual = (start.written,) if start else tuple(task.seeds)
        seeds = config.arms[trial.arm].instructions or usual
    if section.proposer is None:
        seeds = seeds[:1]
    return seeds, taken_over.notices if taken_over else ()


def _taken_over(
    config: RunConfig, trial: TrialId, task: Task, section: EngineSection
) -> Fitted | None:
    """The seeds of a trial that starts from the pool of another run, None if it does not."""
    source = config.seeds_from_of(trial.arm)
    if source is None:
        return None
    most = 1 if section.proposer is None else section.population_size
    return fit(config.pools[source], source, task, most)
