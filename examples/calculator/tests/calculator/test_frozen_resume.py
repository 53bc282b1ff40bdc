"""An optimization of a task that is stopped goes on to the same end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import evoprompt
from evoprompt_calculator.bank import SENTENCES
from evoprompt_calculator.task import Calculator, CalculatorSettings
from provider import openai

from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.summary import SeedSummary

SIZES = {"train": 40, "validation": 16, "test": 20}
GIVEN = (
    *("optimize", "calculator", "--model", "openai:gpt-4.1-nano", "--budget", "200"),
    *(part for name, size in SIZES.items() for part in ("--set", f"task.{name}={size}")),
    *("--set", "engine.proposer=sentence-edit", "--set", "host.max_concurrency=1"),
)
FILES = ("events.jsonl", "journal.jsonl")


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take longer than all the rest."""
    monkeypatch.setattr("evoprompt.experiments.cli.run._write_report", lambda *given: None)


TASK = Calculator(CalculatorSettings(**SIZES))
KNOWN = {question.text: question for split in SIZES for question in TASK.questions(split)}


def answered(body: Mapping[str, Any], heed: Callable[[str], bool]) -> str:
    """The answer of a model that minds units only under instructions of some kind."""
    instruction, asked = (message["content"] for message in body["messages"])
    question = KNOWN[asked]
    right = question.answers[0]
    return right if heed(instruction) or not question.row["unit"] else f"{right}0"


def test_a_stopped_optimization_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    stop_at, asked = 40, -10_000

    def answer(body: Mapping[str, Any]) -> str:
        nonlocal asked
        asked += 1
        if asked == stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        return answered(body, lambda text: any(one in text for one in SENTENCES["units"]))

    with openai(answer):
        assert evoprompt(*GIVEN, "--output", str(tmp_path / "whole")) == 0
    whole = asked + 10_000
    asked = 0
    with openai(answer):
        assert evoprompt(*GIVEN, "--output", str(tmp_path / "stopped")) == 130
        assert asked <= stop_at + 4  # those of the batch that was under way
        assert evoprompt("optimize", str(tmp_path / "stopped"), "--resume") == 0
    assert asked == whole
    trials = [
        RunDirectory.open(tmp_path / name).root / "trials" / "optimized" / "seed-0"
        for name in ("whole", "stopped")
    ]
    for name in FILES:
        one, other = ((trial / name).read_bytes() for trial in trials)
        assert one == other, name


LIMITS = {
    "--budget": (24, 200),
    "--usd": (0.0006, 1.0),
}


@pytest.mark.parametrize("option", LIMITS)
def test_a_limit_is_raised_on_a_resume(option: str, tmp_path: Path) -> None:
    low, high = LIMITS[option]
    out = tmp_path / "run"

    def answer(body: Mapping[str, Any]) -> str:
        return answered(body, lambda text: text != TASK.seeds[0])

    def found() -> SeedSummary:
        (only,) = RunDirectory.open(out).collect().arms["optimized"].seeds
        return only

    with openai(answer) as server:
        assert evoprompt(*GIVEN, option, f"{low}", "--output", str(out)) == 0
        before, sent = found(), len(server.requests)
        assert evoprompt("optimize", str(out), "--resume", option, f"{low}") == 0
        assert len(server.requests) == sent
        assert evoprompt("optimize", str(out), "--resume", option, f"{high}") == 0
        after = found()
        assert evoprompt("optimize", str(out), "--resume") == 0  # with the higher limit
    assert after.best != before.best
    assert after.rollouts > before.rollouts
    assert after.test.value == 1.0
    assert found() == after
