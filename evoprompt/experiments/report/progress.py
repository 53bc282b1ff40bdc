"""Progress of a run and the remaining time, for the head of the live page."""

from __future__ import annotations

from collections.abc import Iterator

from evoprompt.experiments.report.source import ReportedTrial, Source
from evoprompt.support.text import many


def progress(source: Source) -> list[str]:
    """Return sentences on the trials and each running one; empty if none runs or is due.

    Speed and time left are those of the rollouts until a trial's last evaluation.
    """
    done = sum(trial.is_finished for trial in source.trials)
    if not source.planned or done == source.planned:
        return []
    running = [trial for trial in source.trials if not trial.is_finished]
    rollouts_left = sum(max(trial.budget - trial.history.rollouts, 0) for trial in running)
    if source.trials:  # trials that have not begun count like the mean of the trials so far
        budget = sum(trial.budget for trial in source.trials) / len(source.trials)
        rollouts_left += round(budget * (source.planned - len(source.trials)))
    speeds = [speed for speed in map(_speed, source.trials) if speed]
    first = f"{done} of {many(source.planned, 'trial')} finished"
    if speeds:
        seconds = rollouts_left * len(speeds) / sum(speeds)
        first += f"; about {duration(seconds)} left where one runs at a time"
    return [f"{first}.", *(f"{trial}: {', '.join(_state(trial))}." for trial in running)]


def _state(trial: ReportedTrial) -> Iterator[str]:
    """Yield step, rollouts, speed and time left, if they are known."""
    rollouts, budget = trial.history.rollouts, trial.budget
    if not rollouts:
        yield "begins"
        return
    steps = round(trial.history.step * budget / rollouts)
    yield f"step {trial.history.step:,} of about {steps:,}"
    yield f"{rollouts:,} of {budget:,} rollouts"
    if speed := _speed(trial):
        yield f"{speed:,.1f} rollouts a second"
        yield f"about {duration((budget - rollouts) / speed)} left"


def _speed(trial: ReportedTrial) -> float:
    """Return the rollouts a second; 0 if that is not known yet."""
    points = trial.history.evaluations
    return points[-1][0] / trial.seconds if points and trial.seconds else 0.0


def duration(seconds: float) -> str:
    """Return a duration as text, to a minute or so."""
    if seconds < 90:
        return many(max(round(seconds), 1), "second")
    if seconds < 5400:
        return many(round(seconds / 60), "minute")
    return f"{seconds / 3600:.1f} hours"
