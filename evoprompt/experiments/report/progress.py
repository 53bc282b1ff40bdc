"""How far a run is, and how long it will take: what the live page says first."""

from __future__ import annotations

from collections.abc import Iterator

from evoprompt.experiments.report.source import Source, Trial
from evoprompt.support.text import many


def progress(source: Source) -> list[str]:
    """In words, the trials and then each that goes on; empty where all are finished or none is due.

    Speed and time left are those of the rollouts until a trial's last evaluation.
    """
    done = sum(trial.is_finished for trial in source.trials)
    if not source.planned or done == source.planned:
        return []
    running = [trial for trial in source.trials if not trial.is_finished]
    left = sum(max(trial.budget - trial.history.rollouts, 0) for trial in running)
    if source.trials:  # those to come are taken for like the others
        budget = sum(trial.budget for trial in source.trials) / len(source.trials)
        left += round(budget * (source.planned - len(source.trials)))
    speeds = [speed for speed in map(_speed, source.trials) if speed]
    first = f"{done} of {many(source.planned, 'trial')} finished"
    if speeds:
        seconds = left * len(speeds) / sum(speeds)
        first += f"; about {duration(seconds)} left where one runs at a time"
    return [f"{first}.", *(f"{trial}: {', '.join(_state(trial))}." for trial in running)]


def _state(trial: Trial) -> Iterator[str]:
    """Step, rollouts, speed and time left, of what is known."""
    spent, budget = trial.history.rollouts, trial.budget
    if not spent:
        yield "begins"
        return
    steps = round(trial.history.step * budget / spent)
    yield f"step {trial.history.step:,} of about {steps:,}"
    yield f"{spent:,} of {budget:,} rollouts"
    if speed := _speed(trial):
        yield f"{speed:,.1f} rollouts a second"
        yield f"about {duration((budget - spent) / speed)} left"


def _speed(trial: Trial) -> float:
    """Rollouts a second; 0 where that is not known yet."""
    points = trial.history.evaluations
    return points[-1][0] / trial.seconds if points and trial.seconds else 0.0


def duration(seconds: float) -> str:
    """To a minute or so, in words."""
    if seconds < 90:
        return many(max(round(seconds), 1), "second")
    if seconds < 5400:
        return many(round(seconds / 60), "minute")
    return f"{seconds / 3600:.1f} hours"
