"""Runs of the fake task, and an observer that keeps what it sees."""

from __future__ import annotations

from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.runner import Observer
from evoprompt.experiments.settings import merge
from evoprompt.experiments.summary import SeedSummary
from evoprompt.hosting.section import Settings
from evoprompt.log.events import Event

SETTINGS: Settings = {
    "task": "fake",
    "host": {"name": "fake"},
    "engine": {
        "proposer": "fake",
        "population_size": 4,
        "prune_every": 3,
        "evolve_every": 6,
        "verify_questions": 10,
    },
    "budget": 800,
    "evaluate_every": 160,
}


def config(**changes: object) -> RunConfig:
    return RunConfig.model_validate(merge(SETTINGS, changes))


def small(**changes: object) -> RunConfig:
    """A run of 80 rollouts an arm, evaluated after 40."""
    usual = {"task": "fake", "host": "fake", "budget": 80, "evaluate_every": 40}
    return RunConfig.model_validate({**usual, **changes})


class Watcher(Observer):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.events: dict[TrialId, list[Event]] = {}

    def started(self, trial: TrialId) -> None:
        self.said.append(f"started {trial}")

    def on_event(self, trial: TrialId, event: Event) -> None:
        self.events.setdefault(trial, []).append(event)

    def finished(self, trial: TrialId, result: SeedSummary) -> None:
        self.said.append(f"finished {trial}")

    def failed(self, trial: TrialId, reason: str) -> None:
        self.said.append(f"failed {trial}: {reason}")

    def lost(self, trial: TrialId, reason: str) -> None:
        self.said.append(f"lost {trial}: {reason}")

    def stopping(self) -> None:
        self.said.append("stopping")


def trial_events(directory: RunDirectory, arm: str = "coevolve") -> list[dict[str, object]]:
    return list(read_events(directory.trial(TrialId(arm, 0)).events))
