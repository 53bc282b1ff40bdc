"""Selection of the best instruction of a run."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.history import TrainingHistory
from evoprompt.experiments.summary import SeedSummary
from evoprompt.support.errors import InputError
from evoprompt.support.validation import nearest


class BestTrial(NamedTuple):
    """Trial with the best evaluation.

    Attributes:
        merit: its last evaluation on the validation split, or that of the policy that was saved and
            tested; higher is better.
        trial: arm and seed.
        instruction: its instruction, as readable text.
        statement: sentence on whether it is shown to be better than the first instruction; empty if
            no candidate was compared with that.
    """

    merit: float
    trial: TrialId
    instruction: str
    statement: str


def best_trial(
    directory: RunDirectory, arm: str | None = None, seed: int | None = None
) -> BestTrial:
    """Return the trial with the best policy on validation when it was last evaluated or saved.

    Test questions do not count: a choice by them would make their result worthless. Of equal trials
    it is the one of the first arm of the configuration, and of that arm the one with the lowest
    seed. Trials that are not finished take part, with the instruction of their last evaluation; a
    finished trial takes part with the instruction of its result, which was tested.

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
    evaluated_trials: list[BestTrial] = []
    for trial in directory.trials():
        if arm in (None, trial.arm) and seed in (None, trial.seed):
            files = directory.trial(trial)
            history = TrainingHistory.read(files.events)
            finished = files.finished
            merit = merit_of(history, finished)
            if history.evaluated is not None and merit is not None:
                text = finished.best_instruction if finished else history.evaluated.text
                evaluated_trials.append(BestTrial(merit, trial, text, history.statement))
    if not evaluated_trials:
        raise InputError(
            f"nothing in {directory.root} has been evaluated yet; required: at least one "
            "evaluation; wait, or continue the run with --resume"
        )
    arms = list(config.arms)
    return max(
        evaluated_trials,
        key=lambda best: rank(best.merit, arms.index(best.trial.arm), best.trial.seed),
    )


def merit_of(history: TrainingHistory, finished: SeedSummary | None) -> float | None:
    """Return the merit of a trial on validation, the higher the better; None if not evaluated yet.

    Args:
        history: of the trial.
        finished: its result, if there is one: the evaluation of the saved policy counts.
    """
    if finished is not None and finished.tested_after is not None:
        return finished.main_metric.merit(dict(finished.curve)[finished.tested_after])
    return history.merit


def rank(merit: float | None, arm_index: int, seed: int) -> tuple[float, int, int]:
    """Return the sort key of a trial; the best of several trials has the highest.

    The command and the report choose the best trial by this key.

    Args:
        merit: of the trial, see :func:`merit_of`.
        arm_index: position of its arm in the configuration.
        seed: of the trial.
    """
    return -inf if merit is None else merit, -arm_index, -seed
