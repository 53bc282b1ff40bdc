"""Parts of a trial: its engine, its host, its seeds and its result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from evoprompt.agents.tasks import Host, Task, Trial
from evoprompt.components import BuildContext
from evoprompt.engine import Engine
from evoprompt.experiments.config import PROPOSER_SYNTAX, RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialDirectory, TrialId
from evoprompt.experiments.history import TrainingHistory
from evoprompt.experiments.settings import merge
from evoprompt.experiments.summary import SeedSummary, rollouts_to, to_json
from evoprompt.hosting.section import EngineSection
from evoprompt.lm.budget import SpendTracker
from evoprompt.log.evaluation import Evaluation, MainMetric
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Evaluated
from evoprompt.plugins import build
from evoprompt.screening import Seed
from evoprompt.support.errors import InputError
from evoprompt.support.storage import write_whole
from evoprompt.support.text import words_of
from evoprompt.types import Candidate, TaskContext, Written


@dataclass(frozen=True, slots=True)
class Start:
    """State at the end of the arm before this one.

    Attributes:
        policy: folder of its trained policy.
        instruction: its best instruction, by components.
    """

    policy: Path
    instruction: Written


def start_of(directory: RunDirectory, trial: TrialId) -> Start | None:
    """Return the start of ``trial``, None for the task's own policy and instructions.

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
) -> Sequence[Seed]:
    """Return the seeds of a trial: those of its arm, or the usual ones.

    An arm without a proposer keeps all instructions of its own, and the first of the usual ones.

    Raises:
        InputError: a seed has a component that the task does not have.
    """
    arm = config.arms[trial.arm]
    usual = (start.instruction,) if start and not arm.distill else tuple(task.seeds)
    seeds = arm.instructions or usual
    known_components = Candidate.of(task.seeds[0]).components.keys()
    for seed in seeds:
        if unknown := Candidate.of(seed).components.keys() - known_components:
            raise InputError(
                f"the arm {trial.arm!r} starts from an instruction with the components "
                f"{', '.join(sorted(unknown))}, which the task does not have; required: of "
                f"{', '.join(known_components)}; choose other instructions, or another seeds_from"
            )
    keeps_all = arm.instructions or section.proposer is not None
    return seeds if keeps_all else seeds[:1]


def build_engine(
    config: RunConfig,
    trial: TrialId,
    task: Task,
    log: EventLog | None = None,
    start: Start | None = None,
    spending: SpendTracker | None = None,
    check: bool = True,
) -> Engine:
    """Return the engine of a trial, at its start.

    Args:
        config: the run.
        trial: arm and seed.
        task: what to train on.
        log: receives the events; its directory is the trial's.
        start: state at the end of the arm before this one.
        spending: records the costs of the language models of the whole run; in memory by default.
        check: whether components that cannot work here are refused.

    Raises:
        PluginError: a component is unknown or cannot be built.
        InputError: a setting or a seed instruction cannot be used.
    """
    section = config.engine_of(trial.arm)
    directory = log.path.parent if log is not None and log.path is not None else None
    spending = SpendTracker() if spending is None else spending
    context = BuildContext(task, directory, spending, check, syntax=PROPOSER_SYNTAX)
    seeds = seeds_of(config, trial, task, section, start)
    engine = section.engine(seeds, context, trial.seed, task.required, log)
    engine.budget = config.budget_of(trial.arm)
    engine.setting = TaskContext(reward=words_of(type(task).score))
    return engine


def trial_of(
    config: RunConfig,
    trial: TrialId,
    directory: TrialDirectory,
    start: Start | None = None,
) -> Trial:
    """Return the settings of a trial for a host."""
    return Trial(
        seed=trial.seed,
        directory=directory.checkpoints,
        budget=config.budget_of(trial.arm),
        evaluate_every=config.evaluate_every,
        resume=directory.has_checkpoint,
        policy=start.policy if start else None,
        task=config.task,
        keeps_policies=config.keep_policies,
    )


def host_for(task: Task, section: Mapping[str, JsonValue]) -> Host:
    """Return the host of a section ``{name: ..., setting: ...}``, over the task's preferences.

    Raises:
        PluginError: the host is unknown.
        InputError: a setting is unknown or cannot be used.
    """
    preferred = task.host_defaults.get(str(section["name"]), {})
    host: Host = build("host", merge(preferred, section), BuildContext(task))
    return host


def evaluation_event(
    step: int,
    split: str,
    best: Candidate,
    rollouts: int,
    evaluation: Evaluation,
    main_metric: MainMetric,
) -> Evaluated:
    """Return the event of an evaluation under the candidate ``best``."""
    metrics = {**evaluation.metrics, main_metric.name: evaluation.value}
    kinds = dict(evaluation.by_kind)
    return Evaluated(step, split, best.id, rollouts, metrics, kinds, main_metric)


def write_result(
    run: RunDirectory,
    trial: TrialId,
    main_metric: MainMetric,
    test: Evaluation,
    rollouts: int,
    seconds: float,
    best: Mapping[str, str],
    failure_reason: str = "",
    tested_after: int | None = None,
) -> SeedSummary:
    """Write and return the result of a trial, which is finished with it.

    Args:
        run: the run it belongs to.
        trial: arm and seed.
        main_metric: of its task.
        test: the test split under the best instruction.
        rollouts: spent in all.
        seconds: spent in all.
        best: the components of the best candidate.
        failure_reason: see :class:`SeedSummary`.
        tested_after: likewise.
    """
    files = run.trial(trial)
    points = TrainingHistory.read(files.events).evaluations
    write_whole(files.tested, json.dumps(test.outcomes))
    result = SeedSummary(
        seed=trial.seed,
        main_metric=main_metric,
        test=test.model_copy(update={"outcomes": ()}),
        rollouts=rollouts,
        rollouts_to_target=rollouts_to(run.config.target, points, main_metric),
        train_seconds=seconds,
        best=dict(best),
        curve=points,
        failure_reason=failure_reason,
        tested_after=tested_after,
    )
    write_whole(files.result, to_json(result))
    return result
