"""The gate for GPUs in miniature: what needs CUDA says that it was not run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import bytewise
import pytest

pytestmark = pytest.mark.nightly
GATE = Path(__file__).parents[3] / "benchmarks" / "gpu_gate.py"


def gate(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, GATE, *words, "--cpu"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_phase_is_told_and_what_needs_cuda_is_not_run(tmp_path: Path) -> None:
    model, out = bytewise.tiny_model(tmp_path / "model"), tmp_path / "gate"
    done = gate(model, "--output", out)
    rows = {row["phase"]: row for row in json.loads((out / "gate.json").read_text())}
    assert {name: row["status"] for name, row in rows.items()} == {
        **dict.fromkeys(("trl-static", "trl-kill", "trl-resume"), "passed"),
        **dict.fromkeys(("verl-kill", "verl-resume"), "not run"),
    }, done.stdout + done.stderr
    assert done.returncode == 0
    assert rows["trl-resume"]["steps"] == 4
    assert rows["trl-resume"]["verification_rollouts"] > 0


def test_what_is_no_model_is_named_before_anything_starts(tmp_path: Path) -> None:
    model = bytewise.tiny_model(tmp_path / "model")
    (model / "chat_template.jinja").unlink()
    done = gate(model, "--output", tmp_path / "gate")
    assert done.returncode == 2
    assert "has no chat template" in done.stderr
    assert not (tmp_path / "gate").exists()


def test_a_phase_that_fails_is_named_and_what_builds_on_it_is_not_run(tmp_path: Path) -> None:
    model = bytewise.tiny_model(tmp_path / "model")
    done = gate(model, "--output", tmp_path / "gate", "--limit", "2", "--only", "trl")
    rows = json.loads((tmp_path / "gate" / "gate.json").read_text())
    assert done.returncode == 1
    assert [row["status"] for row in rows] == ["failed"] * 2 + ["not run"] * 3
    assert "no end within" in rows[0]["reason"]
    assert "trl-kill" in rows[2]["reason"]
