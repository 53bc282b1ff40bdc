"""Files of a run, and how an interrupted run is continued.

::

    OUTPUT/
      config.yaml             every setting with the value in use
      about.json              when, where and by which version it was begun
      summary.json            results of all finished trials
      best_instruction.txt
      lm-spending.jsonl       costs of the language models of all trials
      writer.lock             held by the process that runs it
      report.html
      trials/ARM/seed-N/
        events.jsonl          the trial's own events, written as they happen
        tested.json           outcome of each test question
        result.json           there when, and only when, the trial is finished
        seconds.json          time spent so far, for a resumed trial to add to
        error.txt             error with which it failed, if it did
        writer.lock           held by the process that trains it
        output.log            output of its process, when trials run side by side
        policy/               the trained policy
        policies/             those of all evaluations, where they are kept; policy/ is a link then
        checkpoints/          the trainer's own
        journal.jsonl         every rollout, where the policy is frozen
        pool/                 requests of the user by evoprompt pool
        launched/             there while a launcher waits for it; see ``launchers.node``
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from evoprompt.experiments.about import About
from evoprompt.experiments.config import RunConfig, is_limit, load, with_host_defaults
from evoprompt.experiments.settings import differences
from evoprompt.experiments.summary import (
    SeedSummary,
    Summary,
    to_json,
)
from evoprompt.lm.budget import SPENDING_FILE
from evoprompt.log.evaluation import QuestionOutcome
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError
from evoprompt.support.storage import LOCK, STATE_FILE, is_temporary, write_whole
from evoprompt.support.validation import read_json

_OUTCOMES = TypeAdapter(list[QuestionOutcome])


class TrialId(NamedTuple):
    """One arm with one seed."""

    arm: str
    seed: int

    def __str__(self) -> str:
        return f"{self.arm}/{self.seed}"


class TrialDirectory:
    """The files of one trial."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events = root / "events.jsonl"
        self.tested = root / "tested.json"
        self.result = root / "result.json"
        self.seconds = root / "seconds.json"
        self.error = root / "error.txt"
        self.output = root / "output.log"
        self.policy = root / "policy"
        self.policies = root / "policies"
        self.checkpoints = root / "checkpoints"
        self.journal = root / "journal.jsonl"
        self.launched = root / "launched"

    @property
    def finished(self) -> SeedSummary | None:
        """Return the result of the trial, None while it is not finished."""
        try:
            remedy = "delete it to repeat the trial"
            return read_json(self.result, SeedSummary, "is not a result", remedy)
        except FileNotFoundError:
            return None

    @property
    def outcomes(self) -> list[QuestionOutcome]:
        """Return the outcome of each test question; empty if it is not known."""
        try:
            return _OUTCOMES.validate_python(json.loads(self.tested.read_bytes()))
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise InputError(
                f"{self.tested} does not hold the outcomes of the test questions; required: the "
                "file as it was written; delete it to leave them out"
            ) from error

    @property
    def has_checkpoint(self) -> bool:
        """Return whether the trial can be continued: from an engine's state, or from rollouts."""
        return self.journal.is_file() or any(self.checkpoints.rglob(STATE_FILE))

    def clear(self) -> None:
        """Remove the files of an earlier process, so that the trial starts afresh."""
        for file in (self.events, self.seconds, self.journal):
            file.unlink(missing_ok=True)
        for folder in (self.checkpoints, self.policies, self.root / "pool"):
            if folder.exists():
                shutil.rmtree(folder)

    def forget(self) -> None:
        """Remove the files that only serve to resume the trial, which is finished."""
        for state in list(self.checkpoints.rglob(STATE_FILE)):
            shutil.rmtree(state.parent)


class RunDirectory:
    """The output directory of a run.

    Args:
        root: the directory; it need not exist.
        config: the run it belongs to.

    Attributes:
        summary: file of the summary.
        spending: file with the costs of the language models of all trials.
        about: file with the date, machine and version of its start.
        best: file of the best instruction.
        limits_changed: whether it is continued with other limits, under which every optimization
            goes on from its journal, one with a result too.
    """

    def __init__(self, root: Path, config: RunConfig) -> None:
        self.root = root
        self.config = config
        self.summary = root / "summary.json"
        self.spending = root / SPENDING_FILE
        self.about = root / "about.json"
        self.best = root / "best_instruction.txt"
        self.limits_changed = False

    @classmethod
    def new(cls, root: Path, config: RunConfig) -> RunDirectory:
        """Return a directory for a new run; nothing is written yet.

        Raises:
            InputError: ``root`` holds something already.
        """
        if root.is_file():
            raise InputError(f"{root} is a file; required: a directory; choose another --output")
        if root.is_dir() and any(
            not is_temporary(file) and file.name != LOCK for file in root.iterdir()
        ):
            raise InputError(
                f"{root} is not empty; required: a new directory; choose another --output, or "
                "continue a run that it holds with --resume"
            )
        return cls(root, config)

    @classmethod
    def open(cls, root: Path) -> RunDirectory:
        """Return the directory of a run that has begun.

        Raises:
            InputError: ``root`` holds no run, or its configuration cannot be read.
        """
        if not (root / "config.yaml").is_file():
            raise InputError(
                f"{root} holds no run; required: the output directory of an `evoprompt run`, with "
                "its config.yaml; check the path"
            )
        return cls(root, load(root / "config.yaml"))

    @classmethod
    def resumed(cls, root: Path, config: RunConfig) -> RunDirectory:
        """Return the directory of a run to continue, with the arms and seeds of both.

        Raises:
            InputError: ``root`` holds no run, or one with other settings than ``config``.
        """
        begun_run = cls.open(root)
        try:
            joined = begun_run.config.joined(with_host_defaults(config))
        except InputError as error:
            raise InputError(
                f"{root} cannot be continued: {error}; choose another --output, or continue it as "
                f"it was: evoprompt run {root} --resume"
            ) from error
        directory = cls(root, joined)
        changes = differences(begun_run.config.resolved(), joined.resolved())
        directory.limits_changed = any(is_limit(setting) for setting, *_ in changes)
        return directory

    def trial(self, trial: TrialId) -> TrialDirectory:
        """Return the files of one trial."""
        return TrialDirectory(self.root / "trials" / trial.arm / f"seed-{trial.seed}")

    def trials(self) -> list[TrialId]:
        """Return every trial of the run, arm by arm within each seed."""
        return [TrialId(arm, seed) for seed in self.config.seeds for arm in self.config.arms]

    def before(self, trial: TrialId) -> TrialId | None:
        """Return the trial that ``trial`` starts after, if any."""
        after = self.config.arms[trial.arm].after
        return None if after is None else TrialId(after, trial.seed)

    def write_config(self) -> None:
        """Write ``config.yaml`` and, once, ``about.json``; the directory is a run from now on.

        Raises:
            InputError: nothing can be written there.
        """
        try:
            write_whole(self.root / "config.yaml", yamlfile.dump(self.config.resolved()))
            if not self.about.exists():  # a run that was killed here is resumed
                write_whole(self.about, to_json(About.now()))
        except OSError as error:
            raise InputError(
                f"{self.root} cannot be written to: {error.strerror}; required: a directory with "
                "room and the right to write; choose another --output"
            ) from error

    def collect(self) -> Summary:
        """Write the summary of the trials that are finished so far, and return it."""
        seed_results = {
            arm: [self.trial(TrialId(arm, seed)).finished for seed in self.config.seeds]
            for arm in self.config.arms
        }
        results = {arm: [seed for seed in seeds if seed] for arm, seeds in seed_results.items()}
        summary = Summary.of(results, self.config.target)
        write_whole(self.summary, to_json(summary))
        return summary
