"""The benchmark of a long training keeps up with the adapter."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_a_step_goes_through_the_adapter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    soak = runpy.run_module("benchmarks.soak")
    soak["main"](soak["Through"].verl, trajectories=2 * 2560)
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.startswith("| verl | 5,120 + 0 |")
