from __future__ import annotations

import csv
import json
from pathlib import Path

from evoprompt_search_qa.harness.table import Cell, Row, Table

TABLE = Table(
    title="Exact match in %",
    intervals="brackets: 95 %",
    columns=("nq", "average"),
    rows=(
        Row(
            name="RAG",
            cells=(
                Cell(value=0.25, low=0.125, high=0.5, scored=8, unscored=2),
                Cell(value=None, unscored=2),
            ),
        ),
    ),
    notes=("A note.",),
)


def test_markdown_shows_percent_intervals_and_what_is_unscored() -> None:
    assert TABLE.markdown() == (
        "Exact match in %; brackets: 95 %.\n\n"
        "| method | nq | average |\n"
        "|---|---:|---:|\n"
        "| RAG | 25.0 [12.5, 50.0] (2 unscored) | - (2 unscored) |\n\n"
        "A note.\n"
    )


def test_all_three_files_hold_the_same(tmp_path: Path) -> None:
    written = TABLE.write(tmp_path)
    assert [path.name for path in written] == ["table.md", "table.csv", "table.json"]
    first, second = csv.DictReader((tmp_path / "table.csv").read_text().splitlines())
    assert (first["method"], first["column"], first["value"]) == ("RAG", "nq", "0.25")
    assert (second["value"], second["unscored"]) == ("", "2")
    assert Table.model_validate(json.loads((tmp_path / "table.json").read_text())) == TABLE
