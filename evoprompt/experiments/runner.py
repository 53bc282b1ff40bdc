"""Runs every trial of a run, one after the other or side by side, and survives Ctrl-C."""

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
from evoprompt.experiments.trial import End, Failure, attempt
from evoprompt.log.events import Event
from evoprompt.support.errors import InputError
from evoprompt.support.storage import is_spread, only_writer, write_whole

_PATIENCE = 0.2  # seconds between two looks at the jobs


class Observer:
    """Watches a run, in the process that runs it; every method may be left as it is."""

    def started(self, trial: TrialId) -> None:
        """Is called when a trial begins."""

    def happened(self, trial: TrialId, event: Event) -> None:
        """Is called when something happened in a trial."""

    def finished(self, trial: TrialId, result: SeedSummary) -> None:
        """Is called when a trial has its result, now or from before."""

    def failed(self, trial: TrialId, reason: str) -> None:
        """Is called when a trial ended with an error; the others go on."""

    def lost(self, trial: TrialId, reason: str) -> None:
        """Is called when process or machine of a trial is gone; it goes on from its checkpoint."""

    def stopping(self) -> None:
        """Is called at the first Ctrl-C: the run ends after this step."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended.

    Attributes:
        summary: of all trials that are finished.
        failed: trials that ended with an error.
        interrupted: whether the run was stopped before all trials had their turn.
        nothing_evolved: for each finished trial in which every generation failed, why.
        bad_input: whether files or settings are to blame for all that failed.
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
    """Runs all trials of ``directory`` that are not finished; no other process may do the same.

    A trial that has a checkpoint goes on from it.

    Args:
        directory: where the run lives, with its configuration.
        observer: sees what happens.
        jobs: trials at the same time; by default as many as the launcher has room for.
        isolated: whether each trial needs a process of its own, also one at a time here.
        launcher: where they run; this machine by default.

    Raises:
        InputError: another process runs it; or each trial needs a process of its own, there are
            several, and ``accelerate launch`` or the like has started the processes.
    """
    with only_writer(directory.root, "the run"):
        return _Run(directory, observer, launcher or LocalLauncher()).carry_out(jobs, isolated)


class _Run:
    """The trials of a run on their way to their ends."""

    def __init__(self, directory: RunDirectory, observer: Observer, launcher: Launcher) -> None:
        self._directory, self._observer, self._launcher = directory, observer, launcher
        self._failed: dict[TrialId, Failure] = {}
        self._stopping = False

    def carry_out(self, jobs: int | None, isolated: bool) -> RunOutcome:
        directory, launcher = self._directory, self._launcher
        todo = []
        for trial in directory.trials():
            if directory.limits_changed:
                directory.trial(trial).result.unlink(missing_ok=True)
            if result := directory.trial(trial).finished:
                self._observer.finished(trial, result)
                self._tidy(trial)
            else:
                todo.append(trial)
        _require_one_launch(launcher, len(todo), isolated)
        directory.config = with_host_defaults(with_seeds(directory.config))
        directory.write_config()
        at_once = jobs or launcher.most or max(1, len(todo))
        here = isinstance(launcher, LocalLauncher) and at_once == 1
        try:
            with self._on_signal():
                if here and (is_spread() or not isolated):
                    self._one_by_one(todo)
                else:
                    self._submit(todo, at_once)
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

    def _one_by_one(self, todo: list[TrialId]) -> None:
        """Carries out the trials in this process."""
        for trial in todo:
            if self._stopping:
                return
            self._observer.started(trial)

            def listener(event: Event, trial: TrialId = trial) -> None:
                self._observer.happened(trial, event)

            end = attempt(self._directory, trial, listener, lambda: self._stopping)
            if end is None:
                return
            self._settle(trial, end)
            if isinstance(end, Failure) and is_spread():
                return  # the other processes wait in the trial that failed; ending ends them too
            gc.collect()  # the finished trainer and its model go before the next is built

    def _submit(self, todo: list[TrialId], jobs: int) -> None:
        """Hands the trials to the launcher, in order, ``jobs`` at a time; the lost ones again."""
        root, directory = self._directory.root.absolute(), self._directory
        waiting = list(todo)
        lost: Counter[TrialId] = Counter()
        running: dict[TrialId, Job] = {}
        told_to_stop = False
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
                if self._stopping and not told_to_stop:
                    told_to_stop = True
                    for job in running.values():
                        job.stop()
                heard = [(trial, said) for trial, job in running.items() for said in job.poll()]
                for trial, message in heard:
                    if self._hear(trial, message, lost):
                        waiting.insert(0, trial)
                    if not isinstance(message, Event):
                        del running[trial]
                if not heard:
                    time.sleep(_PATIENCE)
        finally:
            for job in running.values():
                job.kill()

    def _hear(self, trial: TrialId, message: Message, lost: Counter[TrialId]) -> bool:
        """Takes note of what a job says; returns whether its trial is to be submitted again."""
        match message:
            case Event():
                self._observer.happened(trial, message)
            case Done(end) if end is not None:
                self._settle(trial, end)
            case Lost(reason):
                lost[trial] += 1
                if finished := self._directory.trial(trial).finished:
                    self._settle(trial, finished)  # it was lost after that
                elif lost[trial] > self._launcher.retries:
                    times = lost[trial] - 1
                    often = f", as {times} times before" if times else ""
                    self._settle(trial, Failure(reason + often))
                else:
                    self._observer.lost(trial, reason)
                    return True
        return False

    def _settle(self, trial: TrialId, end: End) -> None:
        if isinstance(end, Failure):
            self._failed[trial] = end
            error = self._directory.trial(trial).error
            if not error.exists():  # it ended before it could write one
                with suppress(OSError):  # no room, perhaps
                    write_whole(error, end.reason + "\n")
            self._observer.failed(trial, end.reason)
        else:
            self._observer.finished(trial, end)
            self._directory.collect()
            self._tidy(trial)

    def _tidy(self, trial: TrialId) -> None:
        """Removes what only a job of a finished trial needed; its checkpoints if so wanted."""
        shutil.rmtree(self._directory.trial(trial).launched, ignore_errors=True)
        if not self._directory.config.keep_checkpoints:
            self._directory.trial(trial).forget()

    @contextmanager
    def _on_signal(self) -> Iterator[None]:
        """Makes the first Ctrl-C a request to end after the step, the second an end at once.

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
    """Raises InputError if several processes were launched and cannot do what is wanted."""
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
