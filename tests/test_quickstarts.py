"""The quickstarts run as they are, with a tiny model and a server on this machine."""

from __future__ import annotations

import os
import re
import runpy
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
BETTER = "Work it out step by step, then write the number."

pytestmark = pytest.mark.lm


def run_here(
    name: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
) -> list[str]:
    """What it says in this process."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_none_is_long() -> None:
    for script in EXAMPLES.glob("quickstart_*.py"):
        assert len(script.read_text(encoding="utf-8").splitlines()) <= 80, script


def run(name: str, folder: Path, *arguments: str) -> list[str]:
    """What it says in a process of its own."""
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "DSPY_CACHEDIR": str(folder / "cache"),  # or an earlier run's answers would be given
        },
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout.splitlines()


def test_the_instruction_of_a_frozen_model_becomes_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = count(1)

    def answer(body: Mapping[str, Any]) -> str:
        if body["model"] != "gpt-4.1-nano":
            better = f"{BETTER} Attempt {next(attempts)}."
            return chat_fields(analysis="It guesses.", candidates=[better])
        system, user = body["messages"]
        a, b, _ = map(int, re.findall(r"\d+", user["content"]))
        return str(a * b + a) if "step by step" in system["content"] else "Perhaps 7."

    with openai(answer) as server:
        given = ("--server", server.url, "--budget", "200", "--directory", "runs/new")
        said = run_here("quickstart_frozen.py", tmp_path, capsys, monkeypatch, *given)
    assert said[-1].startswith(BETTER)
    assert (tmp_path / "runs" / "new" / "result.json").is_file()


def test_the_tool_of_a_dspy_program_is_described_better(tmp_path: Path) -> None:
    attempts = count(1)

    def answer(body: Mapping[str, Any]) -> str:
        if len(body["messages"]) == 1:
            return "ready"  # the writer is asked first whether it is there
        system, user = (one["content"] for one in body["messages"])
        if body["model"] != "gpt-4.1-nano":
            better = f"Looks an item up by its name in small letters. Attempt {next(attempts)}."
            return chat_fields(analysis="It guesses.", candidates=[better])
        seen = re.findall(r"## observation_\d ## \]\]\n(.*)", user)
        if "next_tool_name" not in user:
            number = re.findall(r": (\d+) in stock", user)
            return chat_fields(reasoning="so", answer=number[0] if number else "unknown")
        if seen:
            return chat_fields(next_thought="so", next_tool_name="finish", next_tool_args={})
        (item,) = re.findall(r"pieces of (.*) are", user)
        asked = {"item": item.lower() if "small letters" in system else item}
        return chat_fields(next_thought="so", next_tool_name="look_up", next_tool_args=asked)

    with openai(answer) as server:
        said = run("quickstart_dspy.py", tmp_path, "--budget", "120")
        assert {request.body["model"] for request in server.requests} == {
            "gpt-4.1-nano",
            "gpt-5-mini",
        }
    assert "small letters" in (tmp_path / "agent.json").read_text(encoding="utf-8")
    assert "stopped: the incumbent is perfect" in said[-2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trl_trains_while_the_instruction_evolves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--model", str(tiny_model(tmp_path / "model")), "--tokens", "4", "--steps", "3"]
    given += ["--evolve-every", "1"]
    with openai(rewriting(BETTER)) as server:
        said = run_here("quickstart_trl.py", tmp_path, capsys, monkeypatch, *given)
        assert {request.body["model"] for request in server.requests} == {"gpt-5-mini"}
    assert said[-1]
    assert (tmp_path / "runs" / "quickstart" / "checkpoint-3").is_dir()
