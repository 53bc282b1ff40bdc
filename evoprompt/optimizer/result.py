"""What an optimization found, and how it is written."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from evoprompt.evaluation import Failures
from evoprompt.eventlog import EventLog, to_line
from evoprompt.experiments.summary import Spread
from evoprompt.optimizer.folder import EVENTS, RESULT
from evoprompt.optimizer.outcome import Cost
from evoprompt.optimizer.page import write_pictures
from evoprompt.storage import write_whole
from evoprompt.types import Candidate, CandidateStats, legible


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
        value: its mean reward on the test set; without one, on the validation questions that it
            was asked, corrected for the luck of having been chosen by them.
        stderr: standard error of ``value``, over the questions.
        asked: how many questions that were; those that the program failed at have no reward.
        candidates: everybody who was tried, in order of birth, with the mean reward on the
            validation questions asked (of the training questions, where there were none).
        curve: (rollouts, value, text) whenever there was a new incumbent, or more was known of it.
        rollouts: spent in all.
        iterations: of proposing and trying.
        stopped: what ended it.
        log: every event.
        seed: of every choice.
        validation: its mean reward on the validation questions as it was measured, which flatters
            it, since they chose it.
        tested: whether ``value`` is that of the test set.
        failures: rollouts that came to nothing, of all that were made.
        writer_cost: what the proposer's language model has cost; None where it does not say.
        program_cost: the same of the program's own; None where nobody counts it.
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
    validation: float = math.nan
    tested: bool = False
    failures: Failures = field(default_factory=Failures)
    writer_cost: Cost | None = None
    program_cost: Cost | None = None
    runs: Sequence[OptimizationResult] = field(default=(), repr=False)

    @property
    def spread(self) -> Spread:
        """Mean and standard deviation of ``value`` over the seeds."""
        return Spread.of([run.value for run in self.runs or (self,)])

    def facts(self) -> list[str]:
        """How it went, in words: the value and what it is of, what failed, and what it cost."""
        error = f" ± {self.stderr:.3f}" if math.isfinite(self.stderr) else ""
        chosen = (
            ""
            if self.tested
            else (f", corrected for having been chosen by them ({self.validation:.3f} as measured)")
        )
        questions = f"{self.asked} {'test' if self.tested else 'validation'} questions"
        return [
            f"it ended: {self.stopped}",
            f"value {self.value:.3f}{error} on {questions}{chosen}",
            f"{self.rollouts:,} rollouts in {self.iterations:,} iterations, {self.failures}",
            f"the writer: {_told(self.writer_cost)}",
            f"the program: {_told(self.program_cost)}",
        ]

    def report(self, directory: str | Path) -> list[Path]:
        """Writes ``report.html``, ``report.png`` and the events into ``directory``.

        Returns:
            The paths of page and picture.

        Raises:
            ModuleNotFoundError: matplotlib or jinja2 is missing; the extra ``report`` brings them.
        """
        root = Path(directory)
        self.save(root)
        runs = [self, *(run for run in self.runs if run.seed != self.seed)]
        return write_pictures({run.seed: run.log for run in runs}, root)

    def save(self, root: Path) -> None:
        """Writes what was found, and the events where they are not there as a file."""
        if self.log.path != root / EVENTS and not self.runs:
            write_whole(root / EVENTS, "".join(to_line(event) + "\n" for event in self.log))
        write_whole(root / "best_instruction.txt", legible(self.best.components) + "\n")
        found = {
            "best": dict(self.best.components),
            "value": self.value,
            "stderr": _finite(self.stderr),
            "asked": self.asked,
            "tested": self.tested,
            "validation": self.validation,
            "failures": asdict(self.failures),
            "writer_cost": self.writer_cost and asdict(self.writer_cost),
            "program_cost": self.program_cost and asdict(self.program_cost),
            "rollouts": self.rollouts,
            "iterations": self.iterations,
            "stopped": self.stopped,
            "facts": self.facts()[1:],
            "seed": self.seed,
            "curve": [list(point) for point in self.curve],
            "candidates": [
                {
                    "id": one.candidate.id,
                    "components": dict(one.candidate.components),
                    "parents": list(one.candidate.parents),
                    "proposer": one.candidate.proposer,
                    "value": one.weight,
                    "stderr": _finite(one.stderr),
                    "asked": one.groups,
                }
                for one in self.candidates
            ],
        }
        if self.runs:
            found["spread"] = self.spread.model_dump()
            found["runs"] = [{"seed": run.seed, "value": run.value} for run in self.runs]
        write_whole(root / RESULT, json.dumps(found, ensure_ascii=False, indent=1) + "\n")


def _told(cost: Cost | None) -> str:
    return "what it cost is not counted" if cost is None else str(cost)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
