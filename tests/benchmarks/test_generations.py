"""Simulated generations go on where they were stopped, and count what verification took."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_run_that_was_cut_goes_on_and_ends_as_one_that_was_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.generations", str(tmp_path), "--replications", "1"]
    command += ["--worlds", "harmful", "--designs", "default", "unverified", "--first-seed", "7"]
    first = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    path = tmp_path / "results.jsonl"
    whole = path.read_text()
    default, unverified = map(json.loads, whole.splitlines())
    assert default["rollouts"] > 0 == unverified["rollouts"]
    assert default["seed"] == 7
    path.write_text(whole[: whole.index("\n") + 1])
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert path.read_text() == whole
    assert again.stdout == first.stdout
