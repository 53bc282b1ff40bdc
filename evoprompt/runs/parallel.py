"""Trials at the same time, each in a process of its own.

A pipe joins each process with this one: events and the end come in, and anything sent out (or this
process dying) tells it to stop after its step. A process that is killed costs only its own trial.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from evoprompt.events import Event
from evoprompt.runs.directory import RunDirectory, TrialId
from evoprompt.runs.observer import Observer
from evoprompt.runs.trial import End, Failure, Stopping, attempt

_PATIENCE = 0.2  # seconds between two looks at whether to stop
_SPAWN = get_context("spawn")  # forking a process that has loaded torch is not safe


@dataclass(slots=True)
class _Worker:
    trial: TrialId
    process: SpawnProcess
    pipe: Connection[None, Event | End | None]


def side_by_side(
    directory: RunDirectory,
    todo: Sequence[TrialId],
    observer: Observer,
    resume: bool,
    jobs: int,
    stopping: Stopping,
    settle: Callable[[TrialId, End], None],
) -> None:
    """Runs the trials of ``todo``, at most ``jobs`` at a time, and settles each end."""
    # Each process would otherwise start as many threads as there are cores.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
    waiting = list(todo)
    workers: list[_Worker] = []
    told_to_stop = False
    try:
        while workers or (waiting and not stopping()):
            while len(workers) < jobs and not stopping():
                busy = {*waiting, *(worker.trial for worker in workers)}
                free = [trial for trial in waiting if directory.before(trial) not in busy]
                if not free:
                    break
                waiting.remove(free[0])
                workers.append(_start(directory, free[0], resume))
                observer.started(free[0])
            if stopping() and not told_to_stop:
                told_to_stop = True
                for worker in workers:
                    with suppress(OSError):  # it has ended already
                        worker.pipe.send(None)
            ready = wait([worker.pipe for worker in workers], timeout=_PATIENCE)
            for worker in [worker for worker in workers if worker.pipe in ready]:
                message = _receive(worker)
                if isinstance(message, Event):
                    observer.happened(worker.trial, message)
                    continue
                worker.process.join()
                workers.remove(worker)
                if message is not None:
                    settle(worker.trial, message)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _receive(worker: _Worker) -> Event | End | None:
    try:
        return worker.pipe.recv()
    except EOFError:
        worker.process.join()
        return Failure(f"its process ended with exit code {worker.process.exitcode}")


def _start(directory: RunDirectory, trial: TrialId, resume: bool) -> _Worker:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_work, args=(theirs, directory, trial, resume), name=str(trial))
    process.start()
    theirs.close()  # so that its death is seen as the end of the pipe
    return _Worker(trial, process, ours)


def _work(
    pipe: Connection[Event | End | None, None],
    directory: RunDirectory,
    trial: TrialId,
    resume: bool,
) -> None:
    """What runs in the trial's process; its output goes to a file beside its events."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they reach all; the parent says what to do
    log = directory.trial(trial).output
    log.parent.mkdir(parents=True, exist_ok=True)

    one_at_a_time = threading.Lock()  # what is only shown may come from another thread

    def listener(event: Event) -> None:
        with one_at_a_time, suppress(OSError):  # the parent died; poll says so before the next step
            pipe.send(event)

    with log.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        end = attempt(directory, trial, resume, listener, pipe.poll)
    with suppress(OSError):
        pipe.send(end)
