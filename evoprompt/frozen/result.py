"""What an optimization found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from evoprompt.eventlog import EventLog
from evoprompt.runs.summary import Spread
from evoprompt.types import Candidate, CandidateStats


class Point(NamedTuple):
    """Where an optimization stood when its incumbent changed.

    Attributes:
        rollouts: spent so far, validation included.
        value: mean reward of the incumbent on the validation questions that it was asked.
        text: the incumbent.
    """

    rollouts: int
    value: float
    text: str


@dataclass(frozen=True, slots=True)
class OptimizationResult:
    """What :func:`~evoprompt.optimize` found; printed without its candidates, curve, log and runs.

    Attributes:
        best: the best candidate; ``best.text``, or ``best.components`` of several.
        value: its mean reward on the validation questions that it was asked.
        stderr: standard error of ``value``, over the questions.
        asked: how many validation questions that were.
        candidates: everybody who was tried, in order of birth, with the mean reward on the
            validation questions asked (of the training questions, where there were none).
        curve: (rollouts, value, text) whenever there was a new incumbent, or more was known of it.
        rollouts: spent in all.
        iterations: of proposing and trying.
        stopped: what ended it.
        log: every event.
        seed: of every choice.
        runs: the optimization with each seed, this one among them, if there were several.
    """

    best: Candidate
    value: float
    stderr: float
    asked: int
    candidates: Sequence[CandidateStats] = field(repr=False)
    curve: Sequence[Point] = field(repr=False)
    rollouts: int
    iterations: int
    stopped: str
    log: EventLog = field(repr=False)
    seed: int = 0
    runs: Sequence[OptimizationResult] = field(default=(), repr=False)

    @property
    def spread(self) -> Spread:
        """Mean and standard deviation of ``value`` over the seeds."""
        return Spread.of([run.value for run in self.runs or (self,)])

    def report(self, directory: str | Path) -> list[Path]:
        """Writes ``report.html``, ``report.png`` and the events into ``directory``.

        Returns:
            The paths of page and picture.

        Raises:
            ModuleNotFoundError: matplotlib or jinja2 is missing; the extra ``report`` brings them.
        """
        # matplotlib is slow to import, and only needed here.
        from evoprompt.frozen.folder import write_files
        from evoprompt.frozen.page import write_pictures

        root = Path(directory)
        write_files(self, root)
        return write_pictures(self, root)
