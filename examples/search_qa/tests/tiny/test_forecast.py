"""The dry run of tiny.yaml forecasts what a training takes, by order of magnitude."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from command_line import stdout_of

CONFIG = str(Path(__file__).parents[2] / "tiny.yaml")
MEASURED = {"tokens": 4_800.0, "seconds": 1.6, "gib": 1.1}
"""Of a step of 80 rollouts, and of the process, on a core shared with other work, 28 November 2026;
one with no other work took half as long."""


def forecast(*options: str) -> dict[str, float]:
    text = stdout_of("run", CONFIG, "--dry-run", *options)
    patterns = {
        "tokens": r"a step: .*about ([\d,]+), at most 353,280 tokens",
        "seconds": r"time of a step: about ([\d,]+) s",
        "gib": r"memory: about ([\d.]+) GiB",
        "minutes": r"a trial: about (\d+) min \(training",
    }
    found = {name: re.search(pattern, text) for name, pattern in patterns.items()}
    return {name: float(match[1].replace(",", "")) for name, match in found.items() if match}


def test_it_is_near_to_what_was_measured() -> None:
    figures = forecast()
    assert figures.keys() == {"tokens", "seconds", "gib", "minutes"}
    for name in ("tokens", "seconds"):
        assert 0.2 < figures[name] / MEASURED[name] < 5, name
    assert 0.7 < figures["gib"] / MEASURED["gib"] < 1.5
    assert 1 <= figures["minutes"] < 15


@pytest.mark.slow
@pytest.mark.nightly
def test_it_is_near_to_what_a_run_takes(tmp_path: Path) -> None:
    options = ["--smoke", "--arm", "coevolve"]
    figures = forecast(*options)
    command = ["-m", "evoprompt", "run", CONFIG, *options, "--output", str(tmp_path / "run")]
    process = os.posix_spawn(sys.executable, [sys.executable, *command], os.environ)
    _, status, usage = os.wait4(process, 0)
    assert status == 0
    trial = tmp_path / "run" / "trials" / "coevolve" / "seed-0"
    (state,) = trial.glob("checkpoints/checkpoint-4/trainer_state.json")
    tokens = json.loads(state.read_text(encoding="utf-8"))["num_input_tokens_seen"] / 4
    assert 0.2 < figures["tokens"] / tokens < 5
    assert 0.7 < figures["gib"] / (usage.ru_maxrss / 2**20) < 1.5
    seconds = json.loads((trial / "result.json").read_text(encoding="utf-8"))["train_seconds"] / 6
    assert 0.1 < figures["seconds"] / seconds < 10
