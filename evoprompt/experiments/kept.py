"""The policies that are kept at evaluations, and which of them a trial reports."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from evoprompt.experiments.directory import TrialDirectory
from evoprompt.experiments.summary import Points, to_json
from evoprompt.log.evaluation import Evaluation, MainMetric
from evoprompt.support.storage import write_whole
from evoprompt.support.validation import read_json

_RECORD = "kept.json"


class Kept(BaseModel):
    """A policy as it was when it was saved, beside which this is written.

    Attributes:
        rollouts: spent by then.
        best: the components of the best instruction.
        test: the test split under that.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rollouts: int
    best: dict[str, str]
    test: Evaluation


class KeptPolicies:
    """The folder ``policies`` of a trial.

    Args:
        files: of the trial.
    """

    def __init__(self, files: TrialDirectory) -> None:
        self._root, self._link = files.policies, files.policy

    def folder(self, rollouts: int) -> Path:
        """Where the policy of the evaluation after so many rollouts goes."""
        return self._root / str(rollouts)

    def add(self, kept: Kept) -> None:
        """Completes a folder in which a policy was saved."""
        write_whole(self.folder(kept.rollouts) / _RECORD, to_json(kept))

    def choose(self, points: Points, main_metric: MainMetric) -> tuple[Kept, str]:
        """The policy with the best validation, of several the last; makes ``policy`` a link to it.

        What a process kept that was killed before its next checkpoint does not take part unless it
        was evaluated again.

        Args:
            points: (rollouts, main metric) on validation.
            main_metric: of the task.

        Returns:
            It, and in words that it is not the last one; empty if it is.

        Raises:
            InputError: a record is damaged.
        """
        records = [(self.folder(rollouts) / _RECORD, value) for rollouts, value in points]
        remedy = "delete its folder to leave that policy out"
        found = [
            (read_json(file, Kept, "does not say how its policy did", remedy), value)
            for file, value in records
            if file.is_file()
        ]
        chosen, value = max(reversed(found), key=lambda one: main_metric.merit(one[1]))
        partial = self._link.with_name(f".{self._link.name}.partial")
        partial.unlink(missing_ok=True)
        partial.symlink_to(self.folder(chosen.rollouts).relative_to(self._link.parent))
        partial.replace(self._link)
        last, final = found[-1]
        if chosen.rollouts == last.rollouts:
            return chosen, ""
        return chosen, (
            f"the result is of the policy after {chosen.rollouts:,} rollouts, the best on "
            f"validation ({main_metric.label} {value:.3f}); the last, after {last.rollouts:,}, has "
            f"{final:.3f}"
        )
