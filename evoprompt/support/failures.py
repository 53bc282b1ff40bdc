"""Count of failed rollouts, which every host reports in the same words."""

from __future__ import annotations

from dataclasses import dataclass

EMPTY = "the answer was empty"
"""Reason of the failure of a rollout without any text."""

_FAILURE_SHARE = 0.03  # of the rollouts, from which failures are many


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Number of rollouts that failed: no reward, an exception, or an empty answer.

    Attributes:
        failed: failed rollouts.
        of: all rollouts.
        first: reason of the first failure.

    >>> str(FailureCount(10, 20, "ValueError: no such table"))
    'failed: 10 of 20, first because ValueError: no such table'
    """

    failed: int = 0
    of: int = 0
    first: str = ""

    def __str__(self) -> str:
        because = f", first because {self.first}" if self.failed else ""
        return f"failed: {self.failed:,} of {self.of:,}{because}"

    @property
    def are_many(self) -> bool:
        """Return whether there are at least two failures, and at least 3 % of the rollouts."""
        return self.failed >= max(_FAILURE_SHARE * self.of, 2)

    def with_rollout(self, reason: str) -> FailureCount:
        """Return the count after one more rollout, which failed if there is a reason."""
        failed = self.failed + bool(reason)
        return FailureCount(failed, self.of + 1, self.first or reason)
