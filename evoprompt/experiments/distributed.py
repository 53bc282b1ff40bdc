"""Run with a trainer in several processes, as ``accelerate launch`` starts them.

The first process, the leader, owns the engine and writes every file of the run. The other processes
follow: they take part in all that the trainer does together, in the same order, and write nothing.
"""

from __future__ import annotations

import signal
import time

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.pool import with_seeds
from evoprompt.experiments.trial import begin, test_and_save
from evoprompt.log.evaluation import Evaluation
from evoprompt.plugins import build
from evoprompt.support.errors import InputError
from evoprompt.support.storage import is_spread

_POLL = 0.5


def require_one_at_a_time(jobs: int | None, output: object) -> None:
    """Refuse processes that could not agree on their work.

    Raises:
        InputError: trials side by side, or no directory that all processes know.
    """
    if not is_spread():
        return
    if jobs is not None and jobs > 1:
        raise InputError(
            f"--jobs is {jobs} in a run of several processes; required: 1, as all of them train "
            "one trial together"
        )
    if output is None:
        raise InputError(
            "a run of several processes has no --output; required: a directory that all of them "
            "know; name it"
        )


def follow(directory: RunDirectory) -> None:
    """Take part in all unfinished trials of ``directory``; return after the last.

    The leader decides when to stop: a Ctrl-C, which reaches every process, is left to it.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    directory.config = with_seeds(directory.config)
    for trial in [trial for trial in directory.trials() if directory.trial(trial).finished is None]:
        _follow_trial(directory, trial)


def _follow_trial(directory: RunDirectory, trial: TrialId) -> None:
    before = directory.before(trial)
    while before is not None and directory.trial(before).finished is None:
        time.sleep(_POLL)  # the leader has yet to write what this trial starts from
    job, engine, attachment = begin(directory, trial, build("task", directory.config.task))
    keeps, files = directory.config.keep_policies, directory.trial(trial)

    def on_evaluation(evaluation: Evaluation) -> None:
        if keeps:  # the leader names the folder
            test_and_save(job, engine, files.policies)

    try:
        job.train(engine, on_evaluation)
    finally:
        attachment.detach()
    if not keeps:
        test_and_save(job, engine, files.policy)
