"""Which instruction of a run is the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from evoprompt.errors import InputError
from evoprompt.evaluation import Headline
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.eventfile import read_events
from evoprompt.types import legible
from evoprompt.validation import nearest


def best_instruction(
    directory: RunDirectory, arm: str | None = None, seed: int | None = None
) -> str:
    """The instruction of the best trial; see :func:`best_trial`."""
    return best_trial(directory, arm, seed)[1]


def best_trial(
    directory: RunDirectory, arm: str | None = None, seed: int | None = None
) -> tuple[TrialId, str]:
    """The trial that did best at its last evaluation on the validation split, and its instruction.

    Test questions have no say: choosing by them would make their result worthless. The first of
    the configuration wins a tie. Trials that are not finished take part, with the instruction that
    was evaluated last; a finished one has that of its result, which was tested.

    Args:
        directory: of the run.
        arm: looks at this arm only.
        seed: looks at this seed only.

    Raises:
        InputError: the run has no such arm or seed, or nothing was evaluated yet.
    """
    return max(_evaluated(directory, arm, seed), key=lambda one: one[0])[1:]


def tied_with(
    directory: RunDirectory, arm: str | None = None, seed: int | None = None
) -> list[TrialId]:
    """The best trial, and those that did as well with another instruction.

    Raises:
        InputError: as :func:`best_trial`.
    """
    found = _evaluated(directory, arm, seed)
    merit, chosen, text = max(found, key=lambda one: one[0])
    others = [trial for other, trial, said in found if other == merit and said != text]
    return [chosen, *others]


def _evaluated(
    directory: RunDirectory, arm: str | None, seed: int | None
) -> list[tuple[float, TrialId, str]]:
    """Merit, name and instruction of every trial that was evaluated, in order."""
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
    found: list[tuple[float, TrialId, str]] = []
    for trial in directory.trials():
        if arm in (None, trial.arm) and seed in (None, trial.seed):
            files = directory.trial(trial)
            finished = files.finished
            found += [
                (merit, trial, finished.best_instruction if finished else text)
                for merit, text in last_evaluation(read_events(files.events))
            ]
    if not found:
        raise InputError(
            f"nothing in {directory.root} has been evaluated yet; required: at least one "
            "evaluation; wait, or continue the run with --resume"
        )
    return found


class Logged(NamedTuple):
    """The best candidate of a training after its last step.

    Attributes:
        candidate: its id.
        text: its instruction.
        step: the step.
        weight: its weight then; None where the log does not say.
    """

    candidate: str
    text: str
    step: int
    weight: float | None


def best_logged(log: Path) -> Logged:
    """The best candidate by the events of one training, which may still go on.

    Raises:
        InputError: the log is damaged, or nothing has happened yet.
    """
    texts: dict[str, str] = {}
    best, step = "", 0
    weights: Mapping[str, float] = {}
    for event in read_events(log, headlines=False):
        if event["event"] in ("seeded", "proposed"):
            texts[event["candidate"]] = legible(event["components"])
            best = best or event["candidate"]
        elif event["event"] == "told":
            weights, step = event["weights"], event["step"]
        elif event["event"] == "best":
            best = event["candidate"]
    if not best:
        raise InputError(f"{log} holds no instruction; required: a training that has begun; wait")
    return Logged(best, texts[best], step, weights.get(best))


def last_evaluation(events: Iterable[Mapping[str, Any]]) -> list[tuple[float, str]]:
    """(merit, instruction) of a trial's last evaluation on validation; empty before it.

    The higher merit is the better one, whatever the direction of the headline.
    """
    texts: dict[str, str] = {}
    last: list[tuple[float, str]] = []
    for event in events:
        if event["event"] in ("seeded", "proposed"):
            texts[event["candidate"]] = legible(event["components"])
        elif event["event"] == "evaluated" and event["split"] == "validation":
            headline = Headline(**event["headline"])
            value = event["metrics"][headline.name]
            last = [(headline.merit(value), texts[event["candidate"]])]
    return last
