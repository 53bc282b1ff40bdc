"""Trial of one arm with one seed: from a configuration to a result."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoprompt.agents.tasks import Task, TrainingJob
from evoprompt.engine import Engine
from evoprompt.experiments.checkpoints import SavedPolicies, SavedPolicy
from evoprompt.experiments.collapse import CollapseWatch
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.distill import distill
from evoprompt.experiments.frozen import run_frozen
from evoprompt.experiments.history import TrainingHistory
from evoprompt.experiments.summary import Clock, SeedSummary
from evoprompt.experiments.trial_parts import (
    build_engine,
    evaluation_event,
    host_for,
    start_of,
    trial_of,
    write_result,
)
from evoprompt.hosting.attachment import Attachment, attach
from evoprompt.hosting.binding import silent
from evoprompt.hosting.requests import supervise
from evoprompt.lm.budget import SpendTracker
from evoprompt.log.evaluation import Evaluation
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Event, Notice, StepCompleted
from evoprompt.plugins import build, plugins
from evoprompt.support.credentials import masked
from evoprompt.support.errors import EvopromptError, EvopromptWarning, InputError, StateError
from evoprompt.support.storage import RECIPE_FILE, only_writer, save_state, write_whole
from evoprompt.support.text import format_error
from evoprompt.types import Candidate

Listener = Callable[[Event], None]
Stopping = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class TrialFailure:
    """Error that ended a trial.

    Attributes:
        reason: the error in one line; ``error.txt`` of the trial has its traceback.
        bad_input: whether a file or a setting is the cause, and not the run.
    """

    reason: str
    bad_input: bool = False


End = SeedSummary | TrialFailure
"""End of a trial that is not interrupted."""


@contextmanager
def _warn_once(engine: Engine) -> Iterator[None]:
    """Show a warning of evoprompt unless a notice has the same text, which the observer shows."""
    noted: set[str] = set()

    def note(event: Event) -> None:
        if isinstance(event, Notice):
            noted.add(event.message)

    engine.log.subscribe(note)
    with warnings.catch_warnings():
        show_warning = warnings.showwarning

        def show(
            message: Warning | str, category: type[Warning], *location: Any, **options: Any
        ) -> None:
            if not (issubclass(category, EvopromptWarning) and str(message) in noted):
                show_warning(message, category, *location, **options)

        warnings.simplefilter("default", EvopromptWarning)
        warnings.showwarning = show
        yield
    engine.log.unsubscribe(note)


def begin(
    run: RunDirectory, trial: TrialId, task: Task, log: EventLog | None = None
) -> tuple[TrainingJob, Engine, Attachment]:
    """Return the trainer of a trial and the engine attached to it, for every process of the trial.

    Args:
        run: the run it belongs to.
        trial: arm and seed.
        task: what to train on.
        log: receives the events; None in a process that writes none.

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
    """Train, test, save the policy and write ``result.json``.

    Training goes on from the newest checkpoint, if there is one.

    Args:
        run: the run it belongs to.
        trial: arm and seed.
        listener: sees every event.
        stopping: returns whether to save and stop; called after every step.

    Returns:
        The result; None if it was stopped before the end and can be resumed.

    Raises:
        InputError: a setting cannot be used.
    """
    config, directory = run.config, run.trial(trial)
    if not directory.has_checkpoint:
        directory.clear()
    # A damaged log is refused before training, not after it.
    before = TrainingHistory.read(directory.events)
    directory.error.unlink(missing_ok=True)
    task: Task = build("task", config.task)
    main_metric = task.main_metric
    if config.is_frozen(trial.arm):
        trial_settings = trial_of(config, trial, directory, start_of(run, trial))
        return run_frozen(run, trial, task, trial_settings, listener, stopping)
    log = EventLog(directory.events)
    log.subscribe(plugins().notify)
    log.subscribe(listener)
    job, engine, attachment = begin(run, trial, task, log)
    log.subscribe(lambda event: job.stop() if stopping() else None)
    watch = CollapseWatch(
        (step.step, step.values["reward"]) for step in before.steps if "reward" in step.values
    )

    def check_reward(event: Event) -> None:
        if not isinstance(event, StepCompleted) or event.reward is None:
            return
        if fallen := watch.record_reward(event.step, event.reward):
            log.append(Notice(event.step, fallen))

    log.subscribe(check_reward)
    supervise(engine)
    clock, policies = Clock(directory.seconds), SavedPolicies(directory)

    def record_evaluation(split: str, evaluation: Evaluation, best: Candidate) -> None:
        event = evaluation_event(engine.step, split, best, engine.rollouts, evaluation, main_metric)
        log.append(event)

    def save_policy(folder: Path) -> SavedPolicy:
        best, tested = test_and_save(job, engine, folder)
        record_evaluation("test", tested, best)
        _write_recipe(attachment, engine, folder, str(config.task["name"]))
        return SavedPolicy(rollouts=engine.rollouts, best=dict(best.components), test=tested)

    def on_evaluation(evaluation: Evaluation) -> None:
        record_evaluation("validation", evaluation, engine.best)
        if config.keep_policies:
            policies.add(save_policy(policies.folder(engine.rollouts)))
        clock.save()

    try:
        with _warn_once(engine), silent():
            if config.arms[trial.arm].distill:
                distill(run, trial, task, job, engine, on_evaluation)
            else:
                job.train(engine, on_evaluation)
    finally:
        attachment.detach()
        seconds = clock.save()
    if stopping() and engine.rollouts < config.budget_of(trial.arm):
        return None
    if config.keep_policies:
        saved_policy, choice = policies.choose(
            TrainingHistory.read(directory.events).evaluations, main_metric
        )
        if choice:
            engine.log.append(Notice(engine.step, choice))
    else:
        saved_policy = save_policy(directory.policy)
    return write_result(
        run,
        trial,
        main_metric,
        saved_policy.test,
        engine.rollouts,
        seconds,
        saved_policy.best,
        failure_reason=engine.failure_reason,
        tested_after=saved_policy.rollouts if config.keep_policies else None,
    )


def test_and_save(job: TrainingJob, engine: Engine, folder: Path) -> tuple[Candidate, Evaluation]:
    """Test the policy under the best instruction and save it, in every process of the trial.

    Args:
        job: the trainer.
        engine: its best instruction is tested.
        folder: for the policy.

    Returns:
        The best instruction, and the test.
    """
    best = engine.best
    tested = job.evaluate(best.components, "test")
    job.save(folder)
    return best, tested


def _write_recipe(attachment: Attachment, engine: Engine, policy: Path, task: str) -> None:
    """Write the recipe of prompts next to the policy, for ``evoprompt export``; never raise."""
    try:
        recipe = None if attachment.prompts is None else attachment.prompts.recipe(engine)
        if recipe is not None:
            recipe = recipe.model_copy(update={"task": task})
            save_state(policy / RECIPE_FILE, recipe.model_dump(mode="json"))
    except Exception as error:  # also errors of a foreign template or tokenizer
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
    """Run a trial of ``directory``; no other process may run the same trial.

    An error is written to ``error.txt`` and returned: other trials need not suffer.

    Args:
        directory: the run it belongs to.
        trial: arm and seed.
        listener: sees every event.
        stopping: returns whether to save and stop; called after every step.
        wait: seconds to wait for another process of the same trial to end.

    Returns:
        Its end; None if it was stopped and can be resumed.
    """
    files = directory.trial(trial)
    try:
        busy = Notice(0, f"waits for the process that writes {files.root} to stop")
        with only_writer(files.root, f"the trial {trial}", wait, lambda: listener(busy)):
            if finished := files.finished:
                return finished  # by another process, while this one waited
            return run_trial(directory, trial, listener, stopping)
    except Exception as error:
        with suppress(OSError):  # no room for it, perhaps: the reason is returned in any case
            write_whole(files.error, masked(traceback.format_exc()))
        reason = format_error(error)
        if isinstance(error, EvopromptError):
            reason = reason.removeprefix(f"{type(error).__name__}: ")
        return TrialFailure(reason, isinstance(error, InputError | StateError))
