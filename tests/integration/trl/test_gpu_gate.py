"""The gate for GPUs in miniature: what needs CUDA says that it was not run."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import bytewise
import psutil
import pytest
from waiting import PATIENCE, wait_for

from evoprompt.experiments.requirements import GIB

GATE = Path(__file__).parents[3] / "benchmarks" / "gpu_gate.py"


def gate(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, GATE, *words, "--cpu"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def phase_of(process: psutil.Process, name: str) -> psutil.Process:
    """The phase once it runs; the gate has other children, which ask for the GPU's memory."""

    def found() -> psutil.Process | None:
        for child in process.children():
            with suppress(psutil.Error):  # it has ended already
                if name in child.cmdline():
                    return child
        return None

    phase = wait_for(found)
    assert phase is not None
    return phase


@pytest.mark.nightly
def test_every_phase_is_told_and_what_needs_cuda_is_not_run(tmp_path: Path) -> None:
    model, out = bytewise.tiny_model(tmp_path / "model"), tmp_path / "gate"
    done = gate(model, "--output", out)
    rows = json.loads((out / "gate.json").read_text())
    found = {row["phase"]: row["status"] for row in rows}
    left_out = ("trl-serve", "verl-kill", "verl-resume", "verl-export", "verl-serve", "faiss")
    assert found == {
        **dict.fromkeys(("trl-static", "trl-kill", "trl-resume", "trl-export"), "passed"),
        **dict.fromkeys(left_out, "not run"),
    }, done.stdout + done.stderr
    assert done.returncode == 0
    by_name = {row["phase"]: row for row in rows}
    assert by_name["trl-resume"]["steps"] == 4
    assert by_name["trl-resume"]["verification_rollouts"] > 0
    assert by_name["trl-kill"]["peak_gib"]["memory"] > 0.1
    assert "| trl-serve | not run |" in (out / "gate.md").read_text()


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


@pytest.mark.nightly
def test_a_phase_that_fails_is_named_and_the_others_still_run(tmp_path: Path) -> None:
    model = bytewise.tiny_model(tmp_path / "model")
    done = gate(model, "--output", tmp_path / "gate", "--limit", "8")
    rows = json.loads((tmp_path / "gate" / "gate.json").read_text())
    assert done.returncode == 1
    assert [row["status"] for row in rows] == ["failed"] * 2 + ["not run"] * 8
    assert "no end within 2 s" in rows[0]["reason"]
    assert rows[2]["reason"] == "needs what trl-kill leaves, which did not pass"


@pytest.mark.nightly
def test_a_gate_that_is_ended_leaves_no_process_and_keeps_what_it_saw(tmp_path: Path) -> None:
    model, out = bytewise.tiny_model(tmp_path / "model"), tmp_path / "gate"
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho 2048\n")
    (tools / "nvidia-smi").chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, GATE, model, "--output", out, "--cpu", "--limit", "12"],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
    )
    running = phase_of(psutil.Process(process.pid), "trl-kill")
    process.terminate()
    assert process.wait(PATIENCE) == 1
    assert not running.is_running()
    (row,) = json.loads((out / "gate.json").read_text())
    assert (row["phase"], row["status"]) == ("trl-static", "failed")
    assert row["peak_gib"]["gpu"] == 2.0


@pytest.mark.nightly
def test_what_is_not_installed_here_can_be_left_out(tmp_path: Path) -> None:
    model = bytewise.tiny_model(tmp_path / "model")
    done = gate(model, "--output", tmp_path / "gate", "--only", "faiss")
    rows = json.loads((tmp_path / "gate" / "gate.json").read_text())
    assert done.returncode == 0
    assert {row["status"] for row in rows} == {"not run"}
    assert rows[0]["reason"] == "left out by --only faiss"


def test_a_gpu_with_too_little_memory_is_named() -> None:
    sys.path.insert(0, str(GATE.parent))
    try:
        too_little = importlib.import_module("gpu_gate").too_little
    finally:
        sys.path.remove(str(GATE.parent))
    assert too_little(80 * GIB, 135_000_000) == ""
    said = too_little(16 * GIB, 7_000_000_000)
    assert said.startswith("the GPU has 16 GiB free; required: about 123 for this model")
