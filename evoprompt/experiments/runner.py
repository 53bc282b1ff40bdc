"""Runner of every trial of a run, in sequence or in parallel, which survives Ctrl-C."""

from __future__ import annotations

import gc
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from evoprompt.experiments.best import best_trial
from evoprompt.experiments.config import with_host_defaults
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.launchers.base import Done, Job, Launcher, Lost, Message
from evoprompt.experiments.launchers.local import LocalLauncher
from evoprompt.experiments.pool import with_seeds
from evoprompt.experiments.summary import SeedSummary, Summary
from evoprompt.experiments.trial import End, TrialFailure, attempt
from evoprompt.log.events import Event
from evoprompt.support.errors import InputError
from evoprompt.support.storage import is_spread, only_writer, write_whole

_PATIENCE = 0.2  # seconds between two looks at the jobs


class Observer:
    """Observer of a run, in the process that runs it; every method is optional."""

    def started(self, trial: TrialId) -> None:
        """Handle the start of a trial."""

    def on_event(self, trial: TrialId, event: Event) -> None:
        """Handle an event of a trial."""

    def finished(self, trial: TrialId, result: SeedSummary) -> None:
        """Handle the result of a trial, from now or from before."""

    def failed(self, trial: TrialId, reason: str) -> None:
        """Handle the error that ended a trial; the other trials go on."""

    def lost(self, trial: TrialId, reason: str) -> None:
        """Handle the loss of a trial's process or machine; it goes on from its checkpoint."""

    def stopping(self) -> None:
        """Handle the first Ctrl-C: the run ends after this step."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Outcome of a run.

    Attributes:
        summary: of all trials that are finished.
        failed: trials that ended with an error.
        interrupted: whether the run was stopped before all trials had their turn.
        nothing_evolved: the reason for each finished trial in which every generation failed.
        bad_input: whether files or settings caused all failures.
    """

    summary: Summary
    failed: tuple[TrialId, ...]
    interrupted: bool
    nothing_evolved: Mapping[TrialId, str]
    bad_input: bool


def run(
    directory: RunDirectory,
    observer: Observer,
    jobs: int | None = None,
    isolated: bool = False,
    launcher: Launcher | None = None,
) -> RunOutcome:
    """Run all trials of ``directory`` that are not finished; no other process may do the same.

    A trial that has a checkpoint goes on from it.

    Args:
        directory: of the run, with its configuration.
        observer: sees what happens.
        jobs: trials at the same time; by default as many as the launcher has room for.
        isolated: whether each trial needs a process of its own, also one at a time here.
        launcher: where they run; this machine by default.

    Raises:
        InputError: another process runs the run; or each trial needs a process of its own, there
            are several, and ``accelerate launch`` or the like has started the processes.
    """
    with only_writer(directory.root, "the run"):
        return _Run(directory, observer, launcher or LocalLauncher()).run_trials(jobs, isolated)


class _Run:
    """Trials of a run on their way to their ends."""

    def __init__(self, directory: RunDirectory, observer: Observer, launcher: Launcher) -> None:
        self._directory, self._observer, self._launcher = directory, observer, launcher
        self._failed: dict[TrialId, TrialFailure] = {}
        self._stopping = False

    def run_trials(self, jobs: int | None, isolated: bool) -> RunOutcome:
        directory, launcher = self._directory, self._launcher
        todo = []
        for trial in directory.trials():
            if directory.limits_changed:
                directory.trial(trial).result.unlink(missing_ok=True)
            if result := directory.trial(trial).finished:
                self._observer.finished(trial, result)
                self._remove_job_files(trial)
            else:
                todo.append(trial)
        _require_one_launch(launcher, len(todo), isolated)
        directory.config = with_host_defaults(with_seeds(directory.config))
        directory.write_config()
        num_parallel = jobs or launcher.max_parallel or max(1, len(todo))
        here = isinstance(launcher, LocalLauncher) and num_parallel == 1
        try:
            with self._handle_signals():
                if here and (is_spread() or not isolated):
                    self._run_in_process(todo)
                else:
                    self._submit(todo, num_parallel)
        except KeyboardInterrupt:
            self._stopping = True
        summary = directory.collect()
        if summary.arms:
            write_whole(directory.best, best_trial(directory).instruction + "\n")
        nothing_evolved = {
            TrialId(name, seed.seed): seed.failure_reason
            for name, arm in summary.arms.items()
            for seed in arm.seeds
            if seed.failure_reason
        }
        failures = self._failed.values()
        bad_input = bool(failures) and all(failure.bad_input for failure in failures)
        return RunOutcome(summary, tuple(self._failed), self._stopping, nothing_evolved, bad_input)

    def _run_in_process(self, todo: list[TrialId]) -> None:
        """Run the trials in this process."""
        for trial in todo:
            if self._stopping:
                return
            self._observer.started(trial)

            def listener(event: Event, trial: TrialId = trial) -> None:
                self._observer.on_event(trial, event)

            end = attempt(self._directory, trial, listener, lambda: self._stopping)
            if end is None:
                return
            self._record_end(trial, end)
            if isinstance(end, TrialFailure) and is_spread():
                return  # the other processes wait in the trial that failed; ending ends them too
            gc.collect()  # the finished trainer and its model go before the next is built

    def _submit(self, todo: list[TrialId], jobs: int) -> None:
        """Submit the trials to the launcher in order, ``jobs`` at a time, and lost trials again."""
        root, directory = self._directory.root.absolute(), self._directory
        waiting = list(todo)
        num_losses: Counter[TrialId] = Counter()
        running: dict[TrialId, Job] = {}
        stop_requested = False
        try:
            while True:
                while len(running) < jobs and not self._stopping:
                    busy = {*waiting, *running}
                    free = [trial for trial in waiting if directory.before(trial) not in busy]
                    if not free:
                        break
                    trial = free[0]
                    waiting.remove(trial)
                    shared = RunDirectory(root, directory.config)
                    running[trial] = self._launcher.start(shared, trial, jobs)
                    self._observer.started(trial)
                if not running:
                    return
                if self._stopping and not stop_requested:
                    stop_requested = True
                    for job in running.values():
                        job.stop()
                messages = [
                    (trial, message) for trial, job in running.items() for message in job.poll()
                ]
                for trial, message in messages:
                    if self._handle_message(trial, message, num_losses):
                        waiting.insert(0, trial)
                    if not isinstance(message, Event):
                        del running[trial]
                if not messages:
                    time.sleep(_PATIENCE)
        finally:
            for job in running.values():
                job.kill()

    def _handle_message(
        self, trial: TrialId, message: Message, num_losses: Counter[TrialId]
    ) -> bool:
        """Handle a message of a job; return whether its trial has to be submitted again."""
        match message:
            case Event():
                self._observer.on_event(trial, message)
            case Done(end) if end is not None:
                self._record_end(trial, end)
            case Lost(reason):
                num_losses[trial] += 1
                if finished := self._directory.trial(trial).finished:
                    self._record_end(trial, finished)  # it was lost after that
                elif num_losses[trial] > self._launcher.retries:
                    times = num_losses[trial] - 1
                    often = f", as {times} times before" if times else ""
                    self._record_end(trial, TrialFailure(reason + often))
                else:
                    self._observer.lost(trial, reason)
                    return True
        return False

    def _record_end(self, trial: TrialId, end: End) -> None:
        if isinstance(end, TrialFailure):
            self._failed[trial] = end
            error = self._directory.trial(trial).error
            if not error.exists():  # it ended before it could write one
                with suppress(OSError):  # no room, perhaps
                    write_whole(error, end.reason + "\n")
            self._observer.failed(trial, end.reason)
        else:
            self._observer.finished(trial, end)
            self._directory.collect()
            self._remove_job_files(trial)

    def _remove_job_files(self, trial: TrialId) -> None:
        """Remove files that only a job of the finished trial needed, and checkpoints if so set."""
        shutil.rmtree(self._directory.trial(trial).launched, ignore_errors=True)
        if not self._directory.config.keep_checkpoints:
            self._directory.trial(trial).forget()

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        """Make the first Ctrl-C a request to end after the step, the second an immediate end.

        SIGTERM counts as Ctrl-C: schedulers send it before they take a machine away.
        """

        def handle(number: int, frame: FrameType | None) -> None:
            if self._stopping:
                raise KeyboardInterrupt
            self._stopping = True
            self._observer.stopping()

        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, handle) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)


def _require_one_launch(launcher: Launcher, trials: int, isolated: bool) -> None:
    """Raise InputError if several processes were launched that cannot run these trials."""
    if not is_spread():
        return
    if isolated and trials > 1:
        raise InputError(
            f"{trials} trials in one launch of several processes; required: one, as vLLM gives "
            "its share of a GPU back only when its process ends; launch them one by one with "
            "--arm NAME --seed N, and an --output each"
        )
    if launcher.elsewhere:
        raise InputError(
            "a launcher that sends trials elsewhere, in a run of several processes; required: one "
            "of both; start evoprompt run by itself, or with --launcher local"
        )
