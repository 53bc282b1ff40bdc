"""One arm with one seed: from a configuration to a result."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pydantic import JsonValue

from evoprompt.agents.tasks import Host, Task, Trainee, Trial
from evoprompt.attachment import attach
from evoprompt.binding import silent
from evoprompt.engine import Engine
from evoprompt.errors import EvopromptError, EvopromptWarning, InputError, StateError
from evoprompt.evaluation import Evaluation, Headline
from evoprompt.eventlog import EventLog
from evoprompt.events import Evaluated, Event, Notice
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialDirectory, TrialId
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.export import SupportsRecipe, placement_of, write_artefact
from evoprompt.experiments.frozen import run_frozen
from evoprompt.experiments.hosts.frozen import FrozenHost
from evoprompt.experiments.lease import only_one
from evoprompt.experiments.settings import merge
from evoprompt.experiments.start import Start, seeds_of, start_of
from evoprompt.experiments.summary import SeedSummary, curve, rollouts_to, to_json
from evoprompt.experiments.times import Seconds, read_seconds
from evoprompt.lm.budget import SpendTracker
from evoprompt.plugins import build, plugins
from evoprompt.requests import supervise
from evoprompt.roles import BuildContext
from evoprompt.storage import write_whole
from evoprompt.text import masked, told, words_of
from evoprompt.types import Setting

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
    context = BuildContext(task, directory, SpendTracker() if spending is None else spending, check)
    seeds, notices = seeds_of(config, trial, task, section, start)
    continued = log is not None and len(log) > 0
    engine = Engine(
        seeds,
        config=section.numbers,
        seed=trial.seed,
        log=log,
        required=task.required,
        proposer=build("proposer", section.proposer, context) if section.proposer else None,
        sampler=build("selector", section.sampler, context) if section.sampler else None,
        survivor=build("selector", section.survivor, context) if section.survivor else None,
        parent_selector=build("selector", section.parent_selector, context)
        if section.parent_selector
        else None,
        attributor=build("attributor", section.attributor, context) if section.attributor else None,
        verifier=build("verifier", section.verifier, context) if section.verifier else None,
        population=build("population", section.population, context) if section.population else None,
    )
    engine.budget = config.budget_of(trial.arm)
    engine.setting = Setting(reward=words_of(type(task).score))
    for notice in () if continued else notices:
        engine.log.append(Notice(0, notice))
    return engine


def trial_of(
    config: RunConfig,
    trial: TrialId,
    directory: TrialDirectory,
    resume: bool = False,
    start: Start | None = None,
) -> Trial:
    """What a host is told of a trial."""
    return Trial(
        seed=trial.seed,
        directory=directory.checkpoints,
        budget=config.budget_of(trial.arm),
        evaluate_every=config.evaluate_every,
        resume=resume,
        policy=start.policy if start else None,
        task=config.task,
    )


def build_host(config: RunConfig, arm: str, task: Task) -> Host:
    """The host of an arm: the configuration's settings over those that the task prefers.

    Raises:
        PluginError: the host is unknown.
        InputError: a setting is unknown or cannot be used.
    """
    return host_for(task, config.host_of(arm))


def host_for(task: Task, section: Mapping[str, JsonValue]) -> Host:
    """The host of a section ``{name: ..., setting: ...}``, the settings of ``task`` under it.

    Raises:
        PluginError: the host is unknown.
        InputError: a setting is unknown or cannot be used.
    """
    preferred = task.host_defaults.get(str(section["name"]), {})
    host: Host = build("host", merge(preferred, section), BuildContext(task))
    return host


def prepare(
    config: RunConfig,
    trial: TrialId,
    task: Task,
    directory: TrialDirectory,
    resume: bool = False,
    start: Start | None = None,
) -> Trainee:
    """The policy of a trial in its trainer.

    Raises:
        PluginError: the host is unknown.
        InputError: the host does not support the task, or its settings are wrong.
    """
    told_of = trial_of(config, trial, directory, resume, start)
    return build_host(config, trial.arm, task).prepare(task, told_of)


def run_trial(
    run: RunDirectory,
    trial: TrialId,
    resume: bool,
    listener: Listener,
    stopping: Stopping,
) -> SeedSummary | None:
    """Trains, tests, saves the policy and writes ``result.json``.

    Args:
        run: the run it belongs to.
        trial: which arm and seed.
        resume: whether to continue from the trainer's newest checkpoint.
        listener: sees every event.
        stopping: asked after every step whether to save and stop.

    Returns:
        The result; None when it was stopped before the end, to be resumed.

    Raises:
        InputError: a setting cannot be used.
    """
    config, directory = run.config, run.trial(trial)
    start = start_of(run, trial)
    resume = resume and directory.has_checkpoint
    if not resume:
        directory.clear()
    for _ in read_events(directory.events):
        pass  # a damaged log is refused before training, not after it
    directory.error.unlink(missing_ok=True)
    plugins().block(config.block_plugins)
    task: Task = build("task", config.task)
    headline = task.headline
    host = build_host(config, trial.arm, task)
    told_of = trial_of(config, trial, directory, resume, start)
    if isinstance(host, FrozenHost):
        return run_frozen(run, trial, host, task, told_of, listener, stopping)
    trainee = host.prepare(task, told_of)
    log = EventLog(directory.events)
    log.subscribe(plugins().notify)
    log.subscribe(listener)
    log.subscribe(lambda event: trainee.stop() if stopping() else None)
    engine = build_engine(config, trial, task, log, start, SpendTracker(run.spending))
    supervise(engine)
    with silent():  # the observer shows the events that say the same
        attachment = attach(trainee.trainer, engine, render=trainee.render)
    spent = _Clock(directory, engine)

    def on_evaluation(evaluation: Evaluation) -> None:
        _record(engine, headline, "validation", evaluation)
        spent.save()

    try:
        with warnings.catch_warnings(), silent():
            warnings.simplefilter("ignore", EvopromptWarning)
            trainee.train(engine, on_evaluation)
    finally:
        attachment.detach()
        seconds = spent.save()
    if stopping() and engine.rollouts < config.budget_of(trial.arm):
        return None
    best = engine.best
    tested = trainee.evaluate(best.components, "test")
    _record(engine, headline, "test", tested)
    trainee.save(directory.policy)
    # Where a function of somebody's own places the instruction no template can; see `export`.
    if isinstance(attachment, SupportsRecipe) and placement_of(trainee.render) is not None:
        _export(attachment, directory, config)
    points = curve(read_events(directory.events))
    result = SeedSummary(
        seed=trial.seed,
        headline=headline,
        test=tested,
        rollouts=engine.rollouts,
        rollouts_to_target=rollouts_to(config.target, points, headline),
        train_seconds=seconds.train,
        engine_seconds=seconds.engine,
        verify_seconds=seconds.verify,
        best=dict(best.components),
        curve=points,
        fruitless=engine.failure_reason,
        seeds_from=config.seeds_from_of(trial.arm) or "",
    )
    write_whole(directory.result, to_json(result))
    return result


def _export(attachment: SupportsRecipe, directory: TrialDirectory, config: RunConfig) -> None:
    """Writes what can be deployed; a trial does not fail for it."""
    try:
        recipe = attachment.recipe().model_copy(update={"task": str(config.task["name"])})
        write_artefact(directory.export, directory.policy, recipe, read_events(directory.events))
    except (OSError, InputError) as error:
        warnings.warn(f"{directory.root} has no export: {told(error)}", stacklevel=2)


def attempt(
    directory: RunDirectory,
    trial: TrialId,
    resume: bool,
    listener: Listener,
    stopping: Stopping,
    wait: float = 0.0,
) -> End | None:
    """Runs a trial of ``directory``, of which no other process may run the same.

    An error is written to ``error.txt`` and returned: other trials need not suffer.

    Args:
        directory: the run it belongs to.
        trial: which arm and seed.
        resume: whether to continue from the trainer's newest checkpoint.
        listener: sees every event.
        stopping: asked after every step whether to save and stop.
        wait: seconds to wait for another process of the same trial to end, or to count as gone.

    Returns:
        Its end; None when it was stopped, to be resumed.
    """
    files = directory.trial(trial)
    try:
        files.root.mkdir(parents=True, exist_ok=True)
        with only_one(files.lock, f"{directory.root}, {trial}", wait):
            if finished := directory.finished(trial):
                return finished  # by another process, while this one waited
            return run_trial(directory, trial, resume, listener, stopping)
    except Exception as error:
        with suppress(OSError):  # no room for it, perhaps: the reason is told in any case
            write_whole(files.error, masked(traceback.format_exc()))
        reason = told(error)
        if isinstance(error, EvopromptError):
            reason = reason.removeprefix(f"{type(error).__name__}: ")
        return Failure(reason, isinstance(error, InputError | StateError))


class _Clock:
    """Adds this process's time to what earlier ones spent on the same trial."""

    def __init__(self, directory: TrialDirectory, engine: Engine) -> None:
        self._file = directory.seconds
        self._engine = engine
        self._begun = time.perf_counter()
        self._earlier = read_seconds(self._file)

    def save(self) -> Seconds:
        """Writes and returns the time spent so far, for a process that resumes the trial."""
        seconds = Seconds(
            train=self._earlier.train + time.perf_counter() - self._begun,
            engine=self._earlier.engine + self._engine.engine_seconds,
            verify=self._earlier.verify + self._engine.verify_seconds,
        )
        write_whole(self._file, seconds.model_dump_json())
        return seconds


def _record(engine: Engine, headline: Headline, split: str, found: Evaluation) -> None:
    if not isinstance(found, Evaluation):
        raise InputError(
            f"the task's evaluation of the {split} split is a {type(found).__name__}; required: an "
            "evoprompt.agents.tasks.Evaluation; change the task"
        )
    metrics = {**found.metrics, headline.name: found.value}
    engine.log.append(
        Evaluated(
            engine.step,
            split,
            engine.best.id,
            engine.rollouts,
            metrics,
            dict(found.by_stratum),
            headline,
        )
    )
