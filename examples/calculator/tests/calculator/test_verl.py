"""The calculator under a real veRL on a CPU: Ray, FSDP, agent loops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.verl

RECIPE = Path(__file__).parents[2] / "tiny.yaml"


def test_the_recipe_trains_under_verl(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evoprompt", "run", str(RECIPE), "--smoke"]
    command += ["--arm", "coevolve", "--output", str(tmp_path / "run"), "--set", "budget=160"]
    command += ["--set", "host.name=verl-cpu"]
    done = subprocess.run(
        command,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    (trial,) = summary["arms"]["coevolve"]["seeds"]
    assert trial["rollouts"] >= 160
    assert set(trial["test"]["by_stratum"]) == {"one step", "two steps", "three steps"}
