"""The candidates of one training, read from its events, and what may be asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evoprompt.errors import InputError
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.history import LOGS, History, log_in
from evoprompt.requests import Action, RequestFiles


@dataclass(frozen=True, slots=True)
class Trained:
    """A training that runs, was stopped, or is finished.

    Attributes:
        events: its log.
        requests: what was asked of it.
        finished: whether it has ended, so that nothing asked will be done.
    """

    events: Path
    requests: RequestFiles
    finished: bool

    @classmethod
    def open(cls, path: Path, arm: str | None = None, seed: int | None = None) -> Trained:
        """The training at ``path``.

        Args:
            path: a run, or the folder that holds a training's event log.
            arm: of the run.
            seed: of the run.

        Raises:
            InputError: there is none, or several.
        """
        if (path / "config.yaml").is_file():
            directory = RunDirectory.open(path)
            trial = directory.trial(_only(directory, arm, seed))
            return cls.of_log(trial.events)
        log = log_in(path)
        if log is None:
            raise InputError(
                f"{path} holds no {' or '.join(LOGS)}; required: a run, or the log_dir of an "
                "attached training; check the path"
            )
        return cls.of_log(log)

    @classmethod
    def of_log(cls, log: Path) -> Trained:
        """The training whose events ``log`` holds."""
        return cls(log, RequestFiles(log), (log.parent / "result.json").is_file())

    def history(self) -> History:
        """What became of its candidates."""
        return History.read(self.events)

    def outcomes(self) -> dict[str, tuple[str, str]]:
        """What became of requests, by their ids: the candidate concerned, and words for people."""
        found = {}
        for event in read_events(self.events):
            if event["event"] == "intervened":
                told = ": done" if event["done"] else ": not done"
                reason = f", {event['reason']}" if event["reason"] else ""
                found[event["request"]] = (event["candidate"], told + reason)
        return found

    def require_unfinished(self) -> None:
        """Refuses a training that has ended.

        Raises:
            InputError: the training has ended.
        """
        if self.finished:
            raise InputError(
                f"the training of {self.events.parent} has finished, and nothing will be changed; "
                "required: one that runs or was stopped; start another with --seeds-from"
            )

    def require_candidate(self, action: Action, name: str) -> None:
        """Refuses a candidate about which ``action`` cannot be asked now.

        Raises:
            InputError: there is no such candidate, or it does not wait.
        """
        if action not in ("approve", "refuse"):
            if not self.history().candidate(name).alive:
                raise InputError(
                    f"{name} is not alive; required: a living candidate; see pool list"
                )
            return
        waiting = {one.id: one.components for one in self.requests.waiting()}
        if name not in waiting:
            raise InputError(
                f"{name} does not wait for approval; waiting: {', '.join(waiting) or 'nobody'}; "
                "required: engine.approve: ask, and a candidate that pool list shows as waiting"
            )
        for one in self.requests.everything():
            answers = one.step is None and one.action in ("approve", "refuse")
            if answers and one.candidate == name and one.components in ({}, waiting[name]):
                raise InputError(
                    f"{name} has its answer: {one.action}, not taken up yet; required: a candidate "
                    "that nobody has answered about; see pool list"
                )


def _only(directory: RunDirectory, arm: str | None, seed: int | None) -> TrialId:
    found = [
        trial
        for trial in directory.trials()
        if arm in (None, trial.arm)
        and seed in (None, trial.seed)
        and directory.trial(trial).events.is_file()
    ]
    if arm is None and len(found) > 1:  # of those, most often one arm evolves
        evolving = [t for t in found if directory.config.engine_of(t.arm).proposer is not None]
        found = evolving or found
    if len(found) != 1:
        names = ", ".join(map(str, found)) or "none"
        raise InputError(
            f"{directory.root} has these trainings: {names}; required: one; choose by --arm and "
            "--seed"
        )
    return found[0]
