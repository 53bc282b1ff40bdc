"""The gate for GPUs in miniature: what needs CUDA says that it was not run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import bytewise
import pytest

GATE = Path(__file__).parents[3] / "benchmarks" / "gpu_gate.py"


def gate(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, GATE, *words, "--cpu"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_phase_is_told_and_what_needs_cuda_is_not_run(tmp_path: Path) -> None:
    model, out = bytewise.tiny_model(tmp_path / "model"), tmp_path / "gate"
    done = gate(model, "--output", out)
    rows = json.loads((out / "gate.json").read_text())
    found = {row["phase"]: row["status"] for row in rows}
    assert found == {
        **dict.fromkeys(("trl-static", "trl-kill", "trl-resume", "export"), "passed"),
        **dict.fromkeys(("serve", "verl", "faiss"), "not run"),
    }, done.stdout + done.stderr
    assert done.returncode == 0
    resumed = next(row for row in rows if row["phase"] == "trl-resume")
    assert resumed["steps"] == 4
    assert resumed["verification_rollouts"] > 0
    assert "| serve | not run |" in (out / "gate.md").read_text()


@pytest.mark.parametrize(
    ("missing", "said"),
    [("config.json", "is no model; required"), ("chat_template.jinja", "has no chat template")],
)
def test_what_is_no_model_is_named_before_anything_starts(
    tmp_path: Path, missing: str, said: str
) -> None:
    model = bytewise.tiny_model(tmp_path / "model")
    (model / missing).unlink()
    done = gate(model, "--output", tmp_path / "gate")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "gate").exists()


def test_a_phase_that_fails_is_named_and_the_others_still_run(tmp_path: Path) -> None:
    model = bytewise.tiny_model(tmp_path / "model")
    done = gate(model, "--output", tmp_path / "gate", "--limit", "2")
    rows = json.loads((tmp_path / "gate" / "gate.json").read_text())
    assert done.returncode == 1
    assert [row["status"] for row in rows] == ["failed"] * 4 + ["not run"] * 3
    assert "no end within 2 s" in rows[0]["reason"]
