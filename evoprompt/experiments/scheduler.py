"""Submits the trials of a run to a launcher, in their order and not too many at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from evoprompt.events import Event
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.launchers.base import Done, Job, Launcher, Lost, Work
from evoprompt.experiments.observer import Observer
from evoprompt.experiments.trial import End, Failure, Stopping

_PATIENCE = 0.2  # seconds between two looks at the jobs


class Source(Protocol):
    """Finds further trials while others run, and gives up those without promise."""

    def ask(self) -> TrialId | None:
        """A new trial of the run, None if there is none at present."""
        ...

    def heard(self, trial: TrialId, event: Event) -> str:
        """Why to give ``trial`` up after ``event``; empty to go on."""
        ...

    def tell(self, trial: TrialId, end: End | None) -> None:
        """Takes the end of a trial; None if it was given up."""
        ...


def submit_all(
    directory: RunDirectory,
    todo: Sequence[TrialId],
    observer: Observer,
    resume: bool,
    launcher: Launcher,
    jobs: int,
    stopping: Stopping,
    settle: Callable[[TrialId, End], None],
    source: Source | None = None,
) -> None:
    """Carries out the trials of ``todo`` and settles each end; what is lost is submitted again.

    Args:
        directory: the run.
        todo: trials, in the order in which they begin.
        observer: sees what happens.
        resume: whether they continue from their checkpoints.
        launcher: where they run.
        jobs: trials at a time.
        stopping: asked again and again whether to save and stop.
        settle: takes the end of each trial.
        source: asked for more trials when there is room and none of ``todo`` can begin.
    """
    waiting = list(todo)
    again: set[TrialId] = set()
    given_up: set[TrialId] = set()
    lost: Counter[TrialId] = Counter()
    running: dict[TrialId, Job] = {}
    told_to_stop = False

    def next_one() -> TrialId | None:
        busy = {*waiting, *running}
        free = [trial for trial in waiting if directory.before(trial) not in busy]
        if free:
            waiting.remove(free[0])
            return free[0]
        return source.ask() if source is not None else None

    def ended(trial: TrialId, end: End | None) -> None:
        del running[trial]
        if end is not None:
            settle(trial, end)
        if source is not None and (end is not None or trial in given_up):
            source.tell(trial, end)

    try:
        while True:
            while len(running) < jobs and not stopping() and (trial := next_one()) is not None:
                # The configuration may have grown since the run began.
                shared = RunDirectory(directory.root.absolute(), directory.config)
                work = Work(shared, trial, resume or trial in again, jobs)
                running[trial] = launcher.start(work)
                observer.started(trial)
            if not running:
                return
            if stopping() and not told_to_stop:
                told_to_stop = True
                for job in running.values():
                    job.stop()
            heard = False
            for trial, job in list(running.items()):
                for message in job.poll():
                    heard = True
                    match message:
                        case Event():
                            observer.happened(trial, message)
                            why = source.heard(trial, message) if source is not None else ""
                            if why and trial not in given_up:
                                given_up.add(trial)
                                observer.given_up(trial, why)
                                job.stop()
                        case Done(end):
                            ended(trial, end)
                        case Lost(reason):
                            lost[trial] += 1
                            if finished := directory.finished(trial):
                                ended(trial, finished)  # it was lost after that
                            elif trial in given_up:
                                ended(trial, None)
                            elif lost[trial] > launcher.retries:
                                ended(trial, Failure(_often(reason, lost[trial])))
                            else:
                                del running[trial]
                                observer.lost(trial, reason)
                                again.add(trial)
                                waiting.insert(0, trial)
            if not heard:
                time.sleep(_PATIENCE)
    finally:
        for job in running.values():
            job.kill()


def _often(reason: str, times: int) -> str:
    return reason if times == 1 else f"{reason}, as {times - 1} times before"
