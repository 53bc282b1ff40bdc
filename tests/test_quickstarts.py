"""The quickstarts run as they are, with a tiny model and a server on this machine."""

from __future__ import annotations

import re
import runpy
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


SCRIPTS: list[dict[str, object]] = []
"""The names of scripts that ran: a script does not close its client, and the process ends later."""


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
    SCRIPTS.append(runpy.run_path(str(EXAMPLES / name), run_name="__main__"))
    return capsys.readouterr().out.splitlines()


def test_none_is_long() -> None:
    for script in EXAMPLES.glob("quickstart_*.py"):
        assert len(script.read_text(encoding="utf-8").splitlines()) <= 80, script


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
