"""The benchmark of a long training keeps up with the adapter."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[3] / "benchmarks" / "soak.py"


def test_a_step_goes_through_the_adapter(capsys: pytest.CaptureFixture[str]) -> None:
    soak = runpy.run_path(str(SOAK))
    soak["main"](soak["Through"].verl, trajectories=2 * 2560)
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.startswith("| verl | 5,120 + 0 |")
