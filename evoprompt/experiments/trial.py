"""One arm with one seed: from a configuration to a result."""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from evoprompt.agents.tasks import Host, Task, TrainingJob, Trial
from evoprompt.components import BuildContext
from evoprompt.engine import Engine
from evoprompt.experiments.collapse import RewardWatch
from evoprompt.experiments.config import PROPOSER_SYNTAX, RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialDirectory, TrialId
from evoprompt.experiments.history import History
from evoprompt.experiments.kept import Kept, KeptPolicies
from evoprompt.experiments.settings import merge
from evoprompt.experiments.summary import Clock, SeedSummary, rollouts_to, to_json
from evoprompt.hosting.attachment import Attachment, attach
from evoprompt.hosting.binding import silent
from evoprompt.hosting.requests import supervise
from evoprompt.hosting.section import EngineSection
from evoprompt.lm.budget import SpendTracker
from evoprompt.log.evaluation import Evaluation, MainMetric
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Evaluated, Event, Notice, Told
from evoprompt.plugins import build, plugins
from evoprompt.screening import Seed
from evoprompt.support.errors import EvopromptError, EvopromptWarning, InputError, StateError
from evoprompt.support.storage import RECIPE_FILE, only_writer, write_whole
from evoprompt.support.text import format_error, masked, words_of
from evoprompt.types import Candidate, Setting, Written

Listener = Callable[[Event], None]
Stopping = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Failure:
    """A trial ended with an error.

    Attributes:
        reason: the error in one line; ``error.txt`` of the trial tells more.
        bad_input: whether a file or a setting is to blame, and not the run.
    """

    reason: str
    bad_input: bool = False


End = SeedSummary | Failure
"""How a trial ends that is not interrupted."""


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
) -> Sequence[Seed]:
    """The instructions that a trial starts from; an arm without a proposer keeps the first one.

    Raises:
        InputError: one has a component that the task does not know.
    """
    arm = config.arms[trial.arm]
    usual = (start.written,) if start and not arm.distill else tuple(task.seeds)
    seeds = arm.instructions or usual
    known = Candidate.of(task.seeds[0]).components.keys()
    for seed in seeds:
        if unknown := Candidate.of(seed).components.keys() - known:
            raise InputError(
                f"the arm {trial.arm!r} starts from an instruction with the components "
                f"{', '.join(sorted(unknown))}, which the task does not have; required: of "
                f"{', '.join(known)}; choose other instructions, or another seeds_from"
            )
    return seeds[:1] if section.proposer is None else seeds


def build_engine(
    config: RunConfig,
    trial: TrialId,
    task: Task,
    log: EventLog | None = None,
    start: Start | None = None,
    spending: SpendTracker | None = None,
    check: bool = True,
) -> Engine:
    """The engine of a trial, at its start.

    Args:
        config: the run.
        trial: which arm and seed.
        task: what to train on.
        log: takes the events; its directory is the trial's.
        start: where the arm before this one ended.
        spending: what the language models of the whole run spend; one in memory by default.
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
    engine.setting = Setting(reward=words_of(type(task).score))
    return engine


def trial_of(
    config: RunConfig,
    trial: TrialId,
    directory: TrialDirectory,
    start: Start | None = None,
) -> Trial:
    """What a host is told of a trial."""
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
    """The host of a section ``{name: ..., setting: ...}``, over the settings that ``task`` prefers.

    Raises:
        PluginError: the host is unknown.
        InputError: a setting is unknown or cannot be used.
    """
    preferred = task.host_defaults.get(str(section["name"]), {})
    host: Host = build("host", merge(preferred, section), BuildContext(task))
    return host


@contextmanager
def _said_once(engine: Engine) -> Iterator[None]:
    """Shows a warning of ours unless an event says the same, which the observer shows."""
    noted: set[str] = set()

    def note(event: Event) -> None:
        if isinstance(event, Notice):
            noted.add(event.message)

    engine.log.subscribe(note)
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not (issubclass(category, EvopromptWarning) and str(message) in noted):
                shown(message, category, *place, **more)

        warnings.simplefilter("default", EvopromptWarning)
        warnings.showwarning = show
        yield
    engine.log.unsubscribe(note)


def begin(
    run: RunDirectory, trial: TrialId, task: Task, log: EventLog | None = None
) -> tuple[TrainingJob, Engine, Attachment]:
    """The trainer of a trial with the engine that is attached to it, in every process of it.

    Args:
        run: the run it belongs to.
        trial: which arm and seed.
        task: what to train on.
        log: takes the events; None in a process that writes none.

    Raises:
        InputError: a setting cannot be used, or the trial before it has not finished.
    """
    config, start = run.config, start_of(run, trial)
    host = host_for(task, config.host_of(trial.arm))
    job = host.prepare(task, trial_of(config, trial, run.trial(trial), start))
    spending = None if log is None else SpendTracker(run.spending)
    engine = build_engine(config, trial, task, log, start, spending)
    with silent():
        attachment = attach(job.trainer, engine, render=job.render)
    return job, engine, attachment


def run_trial(
    run: RunDirectory,
    trial: TrialId,
    listener: Listener,
    stopping: Stopping,
) -> SeedSummary | None:
    """Trains, tests, saves the policy and writes ``result.json``.

    Training goes on from the newest checkpoint, if there is one.

    Args:
        run: the run it belongs to.
        trial: which arm and seed.
        listener: sees every event.
        stopping: asked after every step whether to save and stop.

    Returns:
        The result; None when it was stopped before the end, to be resumed.

    Raises:
        InputError: a setting cannot be used.
    """
    config, directory = run.config, run.trial(trial)
    if not directory.has_checkpoint:
        directory.clear()
    before = History.read(
        directory.events
    )  # a damaged log is refused before training, not after it
    directory.error.unlink(missing_ok=True)
    task: Task = build("task", config.task)
    main_metric = task.main_metric
    if config.is_frozen(trial.arm):
        from evoprompt.experiments.frozen import run_frozen  # which starts where trials do

        told_of = trial_of(config, trial, directory, start_of(run, trial))
        return run_frozen(run, trial, task, told_of, listener, stopping)
    log = EventLog(directory.events)
    log.subscribe(plugins().notify)
    log.subscribe(listener)
    job, engine, attachment = begin(run, trial, task, log)
    log.subscribe(lambda event: job.stop() if stopping() else None)
    watch = RewardWatch(
        (one.step, one.values["reward"]) for one in before.steps if "reward" in one.values
    )

    def watch_reward(event: Event) -> None:
        if not isinstance(event, Told) or event.reward is None:
            return
        if fallen := watch.see(event.step, event.reward):
            log.append(Notice(event.step, fallen))

    log.subscribe(watch_reward)
    supervise(engine)
    clock, policies = Clock(directory.seconds), KeptPolicies(directory)

    def keep(folder: Path) -> Kept:
        best, tested = test_and_save(job, engine, folder)
        _record(engine, main_metric, "test", tested, best)
        _write_recipe(attachment, engine, folder, str(config.task["name"]))
        return Kept(rollouts=engine.rollouts, best=dict(best.components), test=tested)

    def on_evaluation(evaluation: Evaluation) -> None:
        _record(engine, main_metric, "validation", evaluation, engine.best)
        if config.keep_policies:
            policies.add(keep(policies.folder(engine.rollouts)))
        clock.save()

    try:
        with _said_once(engine), silent():
            if config.arms[trial.arm].distill:
                from evoprompt.experiments.distill import distill  # which knows trials

                distill(run, trial, task, job, engine, on_evaluation)
            else:
                job.train(engine, on_evaluation)
    finally:
        attachment.detach()
        seconds = clock.save()
    if stopping() and engine.rollouts < config.budget_of(trial.arm):
        return None
    if config.keep_policies:
        kept, choice = policies.choose(History.read(directory.events).evaluations, main_metric)
        if choice:
            engine.log.append(Notice(engine.step, choice))
    else:
        kept = keep(directory.policy)
    return write_result(
        run,
        trial,
        main_metric,
        kept.test,
        engine.rollouts,
        seconds,
        kept.best,
        failure_reason=engine.failure_reason,
        tested_after=kept.rollouts if config.keep_policies else None,
    )


def test_and_save(job: TrainingJob, engine: Engine, folder: Path) -> tuple[Candidate, Evaluation]:
    """Tests the policy as it is under the best instruction and saves it, in every process of it.

    Args:
        job: the trainer.
        engine: whose best to test under.
        folder: takes the policy.

    Returns:
        The best instruction, and the test.
    """
    best = engine.best
    tested = job.evaluate(best.components, "test")
    job.save(folder)
    return best, tested


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
    """Writes and returns the result of a trial, which is finished with it.

    Args:
        run: the run it belongs to.
        trial: which arm and seed.
        main_metric: of its task.
        test: the test split under the best instruction.
        rollouts: spent in all.
        seconds: spent in all.
        best: the components of the best candidate.
        failure_reason: see :class:`SeedSummary`.
        tested_after: likewise.
    """
    files = run.trial(trial)
    points = History.read(files.events).evaluations
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


def _write_recipe(attachment: Attachment, engine: Engine, policy: Path, task: str) -> None:
    """Writes beside the policy how it is asked, for ``evoprompt export``; no trial fails for it."""
    try:
        recipe = None if attachment.prompts is None else attachment.prompts.recipe(engine)
        if recipe is not None:
            recipe = recipe.model_copy(update={"task": task})
            write_whole(policy / RECIPE_FILE, recipe.model_dump_json(indent=2))
    except Exception as error:  # also what a foreign template or tokenizer raises
        engine.log.append(
            Notice(engine.step, f"{policy} cannot be exported: {format_error(error)}")
        )


def attempt(
    directory: RunDirectory,
    trial: TrialId,
    listener: Listener,
    stopping: Stopping,
    wait: float = 0.0,
) -> End | None:
    """Runs a trial of ``directory``, of which no other process may run the same.

    An error is written to ``error.txt`` and returned: other trials need not suffer.

    Args:
        directory: the run it belongs to.
        trial: which arm and seed.
        listener: sees every event.
        stopping: asked after every step whether to save and stop.
        wait: seconds to wait for another process of the same trial to end.

    Returns:
        Its end; None when it was stopped, to be resumed.
    """
    files = directory.trial(trial)
    try:
        busy = Notice(0, f"waits for the process that writes {files.root} to stop")
        with only_writer(files.root, f"the trial {trial}", wait, lambda: listener(busy)):
            if finished := files.finished:
                return finished  # by another process, while this one waited
            return run_trial(directory, trial, listener, stopping)
    except Exception as error:
        with suppress(OSError):  # no room for it, perhaps: the reason is told in any case
            write_whole(files.error, masked(traceback.format_exc()))
        reason = format_error(error)
        if isinstance(error, EvopromptError):
            reason = reason.removeprefix(f"{type(error).__name__}: ")
        return Failure(reason, isinstance(error, InputError | StateError))


def _record(
    engine: Engine, main_metric: MainMetric, split: str, found: Evaluation, best: Candidate
) -> None:
    metrics = {**found.metrics, main_metric.name: found.value}
    engine.log.append(
        Evaluated(
            engine.step,
            split,
            best.id,
            engine.rollouts,
            metrics,
            dict(found.by_kind),
            main_metric,
        )
    )
