"""Runs every trial of a run, one after the other or side by side, and survives Ctrl-C."""

from __future__ import annotations

import gc
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from evoprompt.errors import InputError
from evoprompt.events import Event
from evoprompt.experiments.best import best_instruction
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.host_defaults import with_host_defaults
from evoprompt.experiments.launchers.base import Launcher
from evoprompt.experiments.launchers.local import LocalLauncher
from evoprompt.experiments.lease import only_one
from evoprompt.experiments.observer import Observer
from evoprompt.experiments.scheduler import submit_all
from evoprompt.experiments.summary import Summary
from evoprompt.experiments.transfer import with_pools
from evoprompt.experiments.trial import End, Failure, Stopping, attempt
from evoprompt.processes import is_spread
from evoprompt.storage import write_whole

if TYPE_CHECKING:
    from evoprompt.experiments.study import Study


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        summary: of all trials that are finished.
        failed: trials that ended with an error.
        interrupted: whether the run was stopped before all trials had their turn.
        fruitless: for each finished trial in which every generation failed, why.
        bad_input: whether files or settings are to blame for all that failed.
    """

    summary: Summary
    failed: tuple[TrialId, ...]
    interrupted: bool
    fruitless: Mapping[TrialId, str]
    bad_input: bool


def run(
    directory: RunDirectory,
    observer: Observer,
    resume: bool = False,
    jobs: int | None = None,
    isolated: bool = False,
    launcher: Launcher | None = None,
    study: Study | None = None,
) -> Outcome:
    """Runs all trials of ``directory`` that are not finished; no other process may do the same.

    Args:
        directory: where the run lives, with its configuration.
        observer: sees what happens.
        resume: whether trials continue from their checkpoints.
        jobs: trials at the same time; by default as many as the launcher has room for.
        isolated: whether each trial needs a process of its own, also one at a time here.
        launcher: where they run; this machine by default.
        study: that adds trials to the run's own.

    Raises:
        InputError: another process runs it; or each trial needs a process of its own, there are
            several, and ``accelerate launch`` or the like has started the processes.
    """
    with only_one(directory.lock, f"the run in {directory.root}"):
        return _run(directory, observer, resume, jobs, isolated, launcher or LocalLauncher(), study)


def _run(
    directory: RunDirectory,
    observer: Observer,
    resume: bool,
    jobs: int | None,
    isolated: bool,
    launcher: Launcher,
    study: Study | None,
) -> Outcome:
    todo = []
    for trial in directory.trials():
        if study is not None and study.over(trial):
            continue
        result = directory.finished(trial)
        if result is None:
            todo.append(trial)
        else:
            observer.finished(trial, result)
            _tidy(directory, trial)
    if isolated and is_spread() and len(todo) > 1:
        raise InputError(
            f"{len(todo)} trials in one launch of several processes; required: one, as vLLM gives "
            "its share of a GPU back only when its process ends; launch them one by one with "
            "--arm NAME --seed N, and an --output each"
        )
    if launcher.elsewhere and is_spread():
        raise InputError(
            "a launcher that sends trials elsewhere, in a run of several processes; required: one "
            "of both; start evoprompt run by itself, or with --launcher local"
        )
    directory.config = with_host_defaults(with_pools(directory.config))
    directory.write_config()
    failed: dict[TrialId, Failure] = {}

    def settle(trial: TrialId, end: End) -> None:
        if isinstance(end, Failure):
            failed[trial] = end
            error = directory.trial(trial).error
            if not error.exists():  # it ended before it could write one
                with suppress(OSError):  # no room, perhaps
                    write_whole(error, end.reason + "\n")
            observer.failed(trial, end.reason)
        else:
            observer.finished(trial, end)
            directory.collect()
            _tidy(directory, trial)

    stop = _Stop(observer)
    try:
        with stop.on_signal():
            at_once = jobs or launcher.most or max(1, len(todo))
            alone = isinstance(launcher, LocalLauncher) and at_once == 1
            if alone and study is None and (is_spread() or not isolated):
                _one_by_one(directory, todo, observer, resume, stop, settle)
            else:
                submit_all(
                    directory, todo, observer, resume, launcher, at_once, stop, settle, study
                )
    except KeyboardInterrupt:
        stop.asked = True
    summary = directory.collect()
    if summary.arms:
        write_whole(directory.best, best_instruction(directory) + "\n")
    fruitless = {
        TrialId(name, seed.seed): seed.fruitless
        for name, arm in summary.arms.items()
        for seed in arm.seeds
        if seed.fruitless
    }
    bad_input = bool(failed) and all(failure.bad_input for failure in failed.values())
    return Outcome(summary, tuple(failed), stop.asked, fruitless, bad_input)


def _tidy(directory: RunDirectory, trial: TrialId) -> None:
    """Removes what only a job of a finished trial needed; its checkpoints where that is wanted."""
    shutil.rmtree(directory.trial(trial).launched, ignore_errors=True)
    if not directory.config.keep_checkpoints:
        directory.trial(trial).forget()


class _Stop:
    """Turns the first Ctrl-C into a request to end after the step, the second into an end at once.

    SIGTERM counts as Ctrl-C: schedulers send it before they take a machine away.
    """

    def __init__(self, observer: Observer) -> None:
        self.asked = False
        self._observer = observer

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.asked

    @contextmanager
    def on_signal(self) -> Iterator[None]:
        """Listens inside; restores the handlers afterwards."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, self._handle) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._observer.stopping()


def _one_by_one(
    directory: RunDirectory,
    todo: Sequence[TrialId],
    observer: Observer,
    resume: bool,
    stopping: Stopping,
    settle: Callable[[TrialId, End], None],
) -> None:
    for trial in todo:
        if stopping():
            return
        observer.started(trial)

        def listener(event: Event, trial: TrialId = trial) -> None:
            observer.happened(trial, event)

        end = attempt(directory, trial, resume, listener, stopping)
        if end is None:
            return
        settle(trial, end)
        if isinstance(end, Failure) and is_spread():
            return  # the other processes wait in the trial that failed; ending ends them too
        gc.collect()  # the finished trainer and its model go before the next is built
