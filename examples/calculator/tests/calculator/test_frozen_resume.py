"""An optimization of a task that is stopped goes on to the same end."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from evoprompt_calculator.bank import SENTENCES
from evoprompt_calculator.task import Calculator, CalculatorSettings
from provider import openai

from evoprompt.cli import main
from evoprompt.runs.directory import RunDirectory

SIZES = {"train": 40, "validation": 16, "test": 20}
GIVEN = (
    *("optimize", "calculator", "--model", "openai:gpt-4.1-nano", "--budget", "200"),
    *(part for name, size in SIZES.items() for part in ("--set", f"task.{name}={size}")),
    *("--set", "engine.proposer=sentence-edit", "--set", "host.max_concurrency=1"),
)
FILES = ("events.jsonl", "journal.jsonl")


def ended(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


@pytest.mark.parametrize("stop_at", [5, 40])
def test_a_stopped_optimization_goes_on_and_asks_nothing_twice(
    stop_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evoprompt.cli.run._draw", lambda *given: None)
    known = {
        question.text: question
        for split in SIZES
        for question in Calculator(CalculatorSettings(**SIZES)).questions(split)
    }
    asked = 0

    def answer(body: Mapping[str, Any]) -> str:
        nonlocal asked
        asked += 1
        if asked == stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        instruction, question = (message["content"] for message in body["messages"])
        heeded = any(text in instruction for text in SENTENCES["units"])
        right = known[question].answers[0]
        return right if heeded or not known[question].row["unit"] else f"{right}0"

    asked = -10_000
    with openai(answer):
        assert ended(*GIVEN, "--output", str(tmp_path / "whole")) == 0
    whole = asked + 10_000
    asked = 0
    with openai(answer):
        assert ended(*GIVEN, "--output", str(tmp_path / "stopped")) == 130
        assert asked <= stop_at + 4  # those of the batch that was under way
        assert ended("optimize", str(tmp_path / "stopped"), "--resume") == 0
    assert asked == whole
    trials = [
        RunDirectory.open(tmp_path / name).root / "trials" / "optimized" / "seed-0"
        for name in ("whole", "stopped")
    ]
    for name in FILES:
        one, other = ((trial / name).read_bytes() for trial in trials)
        assert one == other, name
