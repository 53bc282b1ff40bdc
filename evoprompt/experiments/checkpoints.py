"""Policies that are saved at evaluations, and the choice of the one that a trial reports."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from evoprompt.experiments.directory import TrialDirectory
from evoprompt.experiments.summary import Points, to_json
from evoprompt.log.evaluation import Evaluation, MainMetric
from evoprompt.support.storage import write_whole
from evoprompt.support.validation import read_json

_RECORD = "kept.json"


class SavedPolicy(BaseModel, frozen=True, extra="forbid"):
    """Policy as it was when it was saved; the record is written next to it.

    Attributes:
        rollouts: spent by then.
        best: the components of the best instruction.
        test: the evaluation of that instruction on the test split.
    """

    rollouts: int
    best: dict[str, str]
    test: Evaluation


class SavedPolicies:
    """Folder ``policies`` of a trial.

    Args:
        files: of the trial.
    """

    def __init__(self, files: TrialDirectory) -> None:
        self._root, self._link = files.policies, files.policy

    def folder(self, rollouts: int) -> Path:
        """Return the folder for the policy of the evaluation after so many rollouts."""
        return self._root / str(rollouts)

    def add(self, saved_policy: SavedPolicy) -> None:
        """Write the record of a saved policy, which completes its folder."""
        write_whole(self.folder(saved_policy.rollouts) / _RECORD, to_json(saved_policy))

    def choose(self, points: Points, main_metric: MainMetric) -> tuple[SavedPolicy, str]:
        """Return the policy with the best validation, of several the last; link ``policy`` to it.

        A policy that a process saved before it was killed, after its last checkpoint, does not take
        part unless it was evaluated again.

        Args:
            points: (rollouts, main metric) on validation.
            main_metric: of the task.

        Returns:
            The policy, and a notice that it is not the last one; empty if it is.

        Raises:
            InputError: a record is damaged.
        """
        records = [(self.folder(rollouts) / _RECORD, value) for rollouts, value in points]
        remedy = "delete its folder to leave that policy out"
        saved_policies = [
            (read_json(file, SavedPolicy, "lacks the results of its policy", remedy), value)
            for file, value in records
            if file.is_file()
        ]
        chosen, value = max(reversed(saved_policies), key=lambda pair: main_metric.merit(pair[1]))
        partial = self._link.with_name(f".{self._link.name}.partial")
        partial.unlink(missing_ok=True)
        partial.symlink_to(self.folder(chosen.rollouts).relative_to(self._link.parent))
        partial.replace(self._link)
        last, final = saved_policies[-1]
        if chosen.rollouts == last.rollouts:
            return chosen, ""
        return chosen, (
            f"the result is of the policy after {chosen.rollouts:,} rollouts, the best on "
            f"validation ({main_metric.label} {value:.3f}); the last, after {last.rollouts:,}, has "
            f"{final:.3f}"
        )
