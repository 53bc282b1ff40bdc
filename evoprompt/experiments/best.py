"""Which instruction of a run is the best."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.history import History
from evoprompt.experiments.summary import SeedSummary
from evoprompt.support.errors import InputError
from evoprompt.support.validation import nearest


class Best(NamedTuple):
    """The trial that did best.

    Attributes:
        merit: its last evaluation on the validation split, or that of the policy which was kept
            and tested; the higher the better.
        trial: which it is.
        instruction: its instruction, as a person reads it.
        statement: whether that is shown to be better than the first one, in words; empty where
            nobody was compared with that.
    """

    merit: float
    trial: TrialId
    instruction: str
    statement: str


def best_trial(directory: RunDirectory, arm: str | None = None, seed: int | None = None) -> Best:
    """The trial whose policy did best on the validation split, when it was evaluated last or kept.

    Test questions have no say: choosing by them would make their result worthless. Of equals it
    is the one of the first arm of the configuration, and of that the lowest seed. Trials that are
    not finished take part, with the instruction that was evaluated last; a finished one has that
    of its result, which was tested.

    Args:
        directory: of the run.
        arm: looks at this arm only.
        seed: looks at this seed only.

    Raises:
        InputError: the run has no such arm or seed, or nothing was evaluated yet.
    """
    config = directory.config
    if arm is not None and arm not in config.arms:
        raise InputError(
            f"arm {arm!r} is not in {directory.root}; required: one of {', '.join(config.arms)}"
            f"{nearest(arm, config.arms)}"
        )
    if seed is not None and seed not in config.seeds:
        raise InputError(
            f"seed {seed} is not in {directory.root}; required: one of "
            f"{', '.join(map(str, config.seeds))}"
        )
    found: list[Best] = []
    for trial in directory.trials():
        if arm in (None, trial.arm) and seed in (None, trial.seed):
            files = directory.trial(trial)
            history = History.read(files.events)
            finished = files.finished
            merit = merit_of(history, finished)
            if history.evaluated is not None and merit is not None:
                text = finished.best_instruction if finished else history.evaluated.text
                found.append(Best(merit, trial, text, history.statement))
    if not found:
        raise InputError(
            f"nothing in {directory.root} has been evaluated yet; required: at least one "
            "evaluation; wait, or continue the run with --resume"
        )
    arms = list(config.arms)
    return max(found, key=lambda one: rank(one.merit, arms.index(one.trial.arm), one.trial.seed))


def merit_of(history: History, finished: SeedSummary | None) -> float | None:
    """How a trial did on validation, the higher the better; None before its first evaluation.

    Args:
        history: of the trial.
        finished: its result, if there is one: that of a policy that was kept counts, if it is.
    """
    if finished is not None and finished.tested_after is not None:
        return finished.main_metric.merit(dict(finished.curve)[finished.tested_after])
    return history.merit


def rank(merit: float | None, place: int, seed: int) -> tuple[float, int, int]:
    """What the best of several trials has the most of, as the command and the report choose it.

    Args:
        merit: of the trial, see :func:`merit_of`.
        place: of its arm in the configuration.
        seed: of the trial.
    """
    return -inf if merit is None else merit, -place, -seed
