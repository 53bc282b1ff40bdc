"""Simulations go on where they were stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly
def test_a_run_that_was_cut_goes_on_and_ends_as_one_that_was_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.best", str(tmp_path), "--replications", "1"]
    command += ["--leads", "0", "8", "--questions", "16", "--pools", "0", "--steps", "20"]
    command += ["--first-seed", "7"]
    first = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    path = tmp_path / "results.jsonl"
    whole = path.read_text()
    results = [json.loads(line) for line in whole.splitlines()]
    assert [(one["lead"], one["seed"]) for one in results] == [(0, 7), (8, 7)]
    path.write_text(whole[: whole.index("\n") + 1])
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert path.read_text() == whole
    assert again.stdout == first.stdout
