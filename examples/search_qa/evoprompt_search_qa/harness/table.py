"""A table in the shape of the paper's Table 1, as markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from evoprompt.storage import write_whole

AVERAGE = "average"


class Cell(BaseModel):
    """One number of the table.

    Attributes:
        value: exact match in [0, 1]; None when nothing was scored.
        low: lower end of the interval, None without one.
        high: upper end.
        scored: questions, or seeds, behind it.
        unscored: questions without a score; they count neither as right nor as wrong.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float | None
    low: float | None = None
    high: float | None = None
    scored: int = 0
    unscored: int = 0


class Row(BaseModel):
    """One method.

    Attributes:
        name: in the first column.
        cells: one a column of the table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    cells: tuple[Cell, ...]


class Table(BaseModel):
    """Methods by data sets.

    Attributes:
        title: what the numbers are.
        intervals: what the intervals are.
        columns: headings of the cells.
        rows: one per method.
        notes: further lines, such as the outcome of a test.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    intervals: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """The table in percent, with intervals in brackets and unscored questions named."""
        lines = [
            f"{self.title}; {self.intervals}.",
            "",
            "| method | " + " | ".join(self.columns) + " |",
            "|---|" + "---:|" * len(self.columns),
            *(f"| {row.name} | " + " | ".join(map(shown, row.cells)) + " |" for row in self.rows),
        ]
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """One line a cell: method, column, value, low, high, scored, unscored."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["method", "column", *Cell.model_fields])
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                writer.writerow([row.name, column, *cell.model_dump().values()])
        return text.getvalue()

    def write(self, folder: Path) -> Sequence[Path]:
        """Writes ``table.md``, ``table.csv`` and ``table.json``; returns their paths."""
        texts = {
            "table.md": self.markdown(),
            "table.csv": self.csv(),
            "table.json": self.model_dump_json(indent=2) + "\n",
        }
        for name, text in texts.items():
            write_whole(folder / name, text)
        return [folder / name for name in texts]


def shown(cell: Cell) -> str:
    """The cell as text, in percent.

    >>> shown(Cell(value=0.382, low=0.35, high=0.41, unscored=2))
    '38.2 [35.0, 41.0] (2 unscored)'
    """
    value = "-" if cell.value is None else f"{100 * cell.value:.1f}"
    if cell.low is not None and cell.high is not None:
        value += f" [{100 * cell.low:.1f}, {100 * cell.high:.1f}]"
    return value + (f" ({cell.unscored} unscored)" if cell.unscored else "")
