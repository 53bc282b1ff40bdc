"""A tiny world with tool calls under a real veRL on a CPU: Ray, FSDP, agent loops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.verl, pytest.mark.nightly]

RECIPE = Path(__file__).parents[3] / "calculator" / "tiny.yaml"


def test_the_calculator_trains_under_verl(tmp_path: Path) -> None:
    output = tmp_path / "run"
    command = [sys.executable, "-m", "evoprompt", "run", str(RECIPE), "--smoke"]
    command += ["--arm", "coevolve", "--output", str(output), "--set", "budget=160"]
    done = subprocess.run(
        [*command, "--set", "host.name=verl-cpu"],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    # TransferQueue warned twenty times a step that a small machine has no eight cores.
    assert "target_num_threads" not in done.stdout + done.stderr
    summary = json.loads((output / "summary.json").read_text(encoding="utf-8"))
    (trial,) = summary["arms"]["coevolve"]["seeds"]
    assert trial["rollouts"] >= 160
    assert set(trial["test"]["by_kind"]) == {"one step", "two steps", "three steps"}
