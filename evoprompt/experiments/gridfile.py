"""What ``evoprompt grid`` keeps in the directory of a run: values measured, and two by twos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from evoprompt.errors import InputError
from evoprompt.evaluation import Headline
from evoprompt.storage import write_whole

GRID = "grid.json"
"""What was measured, in the directory of the run; what is there is not measured again."""

Moment = Literal["before", "after"]
MOMENTS: tuple[Moment, Moment] = ("before", "after")


class Cell(BaseModel):
    """The headline under some weights and an instruction.

    Attributes:
        weights: before or after the training.
        instruction: the one that the trial began with, or its best one.
        value: mean over the trials.
        low: of the 95 % interval: over the trials, or over the questions if there is one; None
            where the headline is no share and there is one trial.
        high: the same.
    """

    model_config = ConfigDict(frozen=True)

    weights: Moment
    instruction: Moment
    value: float
    low: float | None
    high: float | None


class Grid(BaseModel):
    """The two by two of one arm; the form of ``evoprompt grid --json``.

    Attributes:
        arm: of this name.
        split: whose questions.
        questions: how many.
        headline: what the values are.
        trials: how many.
        cells: the values; without those after the training, where the policy is not trained.
        gains: what weights, instruction and both have brought, and how much more both are than the
            sum of each; each with its interval over the trials.
    """

    model_config = ConfigDict(frozen=True)

    arm: str
    split: str
    questions: int
    headline: Headline
    trials: int
    cells: Sequence[Cell]
    gains: Mapping[str, tuple[float, float | None, float | None]]


class Measured(BaseModel):
    """One value, and over how many questions."""

    value: float
    questions: int


class GridFile(BaseModel):
    """The file.

    Attributes:
        measured: by a digest of everything that a value depends on.
        grids: of the run's own trials, the last one of each arm and split.
    """

    measured: dict[str, Measured] = {}
    grids: list[Grid] = []

    @classmethod
    def read(cls, root: Path) -> GridFile:
        """What is kept in the directory ``root``; nothing where there is no file.

        Raises:
            InputError: the file holds something else.
        """
        path = root / GRID
        if not path.is_file():
            return cls()
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise InputError(
                f"{path} does not hold what a grid has measured; required: the file as it was "
                "written; delete it to measure again"
            ) from error

    def write(self, root: Path) -> None:
        """Keeps it in the directory ``root``."""
        write_whole(root / GRID, self.model_dump_json(indent=1) + "\n")

    def keep(self, grid: Grid) -> None:
        """Adds ``grid`` in place of an earlier one of its arm and split."""
        others = [one for one in self.grids if (one.arm, one.split) != (grid.arm, grid.split)]
        self.grids = [*others, grid]
