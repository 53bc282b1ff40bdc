"""The numbers of one call in docs/results-calculator.md, from the answers that were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from evoprompt.experiments.replayed import Results

RESULTS = Results(Path(__file__).parents[2] / "results")


@pytest.mark.parametrize("name", RESULTS.rows)
def test_the_number_shown_is_that_of_the_answers(name: str) -> None:
    row = RESULTS.row(name)
    assert row.found == row.shown


def test_every_cell_is_shown() -> None:
    assert set(RESULTS.cells) <= set(RESULTS.rows)
