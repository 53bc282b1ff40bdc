"""The two quickstarts run as they are, with a tiny model and a server on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from bytewise import tiny_model
from provider import openai, rewriting

from evoprompt.testing.openai_server import chat_fields

EXAMPLES = Path(__file__).parents[1] / "examples"
QUICKSTARTS = sorted(EXAMPLES.glob("quickstart_*.py"))
BETTER = "Work it out step by step, then write the number."

pytestmark = pytest.mark.lm


def run(name: str, folder: Path, *arguments: str) -> list[str]:
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout.splitlines()


@pytest.mark.parametrize("path", QUICKSTARTS, ids=lambda path: path.stem)
def test_it_has_at_most_80_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 80


def test_there_are_two() -> None:
    assert [path.stem for path in QUICKSTARTS] == ["quickstart_frozen", "quickstart_trl"]


def test_the_instruction_of_a_frozen_model_becomes_better(tmp_path: Path) -> None:
    attempts = count(1)

    def answer(body: Mapping[str, Any]) -> str:
        if body["model"] != "gpt-4.1-nano":
            better = f"{BETTER} Attempt {next(attempts)}."
            return chat_fields(analysis="It guesses.", candidates=[better])
        system, user = body["messages"]
        a, b, _ = map(int, re.findall(r"\d+", user["content"]))
        return str(a * b + a) if "step by step" in system["content"] else "Perhaps 7."

    with openai(answer) as server:
        said = run("quickstart_frozen.py", tmp_path, "--server", server.url, "--budget", "200")
    assert said[-1].startswith(BETTER)


@pytest.mark.slow
def test_trl_trains_while_the_instruction_evolves(tmp_path: Path) -> None:
    given = ["--model", str(tiny_model(tmp_path / "model")), "--tokens", "8", "--steps", "3"]
    with openai(rewriting(BETTER)) as server:
        said = run("quickstart_trl.py", tmp_path, *given, "--evolve-every", "1")
        assert {request.body["model"] for request in server.requests} == {"gpt-5-mini"}
    assert said[-1]
    assert (tmp_path / "runs" / "quickstart" / "checkpoint-3").is_dir()
