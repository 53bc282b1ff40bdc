"""The table beside GEPA is what the benchmark computes, today and with the versions of today."""

from __future__ import annotations

from pathlib import Path

from benchmarks.frozen import rows

PAGE = Path(__file__).parents[2] / "docs/results-frozen.md"


def test_the_rows_of_a_family_are_computed_again() -> None:
    shown = PAGE.read_text(encoding="utf-8").splitlines()
    for row in rows("additive", range(100, 120), 3000, 40, 8):
        assert row in shown
