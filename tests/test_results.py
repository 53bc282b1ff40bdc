"""The numbers of the pages of results, computed again from the answers that were recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evoprompt.experiments.replayed import PageResults

EXAMPLES = Path(__file__).parents[1] / "examples"
RESULTS = {folder.parent.name: PageResults(folder) for folder in sorted(EXAMPLES.glob("*/results"))}


@pytest.mark.parametrize(
    ("example", "name"), [(one, name) for one, found in RESULTS.items() for name in found.rows]
)
def test_the_number_shown_is_that_of_the_answers(example: str, name: str) -> None:
    row = RESULTS[example].row(name)
    assert row.text == row.page_text


@pytest.mark.parametrize("example", RESULTS)
def test_every_cell_is_shown(example: str) -> None:
    results = RESULTS[example]
    shown = set(results.rows)
    for name, seeds in results.seeds.items():
        of = f"{name}, "
        shown |= {
            f"{seed}, {row.removeprefix(of)}"
            for row in shown
            for seed in seeds
            if row.startswith(of)
        }
    assert set(results.cells) <= shown


def test_the_summary_has_numbers_of_the_pages() -> None:
    docs = EXAMPLES.parent / "docs"
    interval = re.compile(r"\.\d{3} ± \.\d{3}")
    rows = [
        line
        for page in docs.glob("results-*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    summary = (docs / "results.md").read_text(encoding="utf-8")
    numbers = set(interval.findall(summary.partition("## Models that are not")[0]))
    assert len(numbers) > 50
    assert numbers - set(interval.findall("".join(rows))) == set()
