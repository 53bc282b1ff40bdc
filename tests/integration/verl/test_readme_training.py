"""The README's veRL command trains: as printed, with this project's CPU platform behind it."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from cpu_support.launch import Training
from provider import openai, rewriting

pytestmark = [pytest.mark.verl, pytest.mark.nightly, pytest.mark.lm, pytest.mark.timeout(3600)]

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
(COMMAND,) = re.findall(
    r"```console\n(python -m verl\.trainer\.main_ppo .*?)```", README, flags=re.DOTALL
)


def test_four_steps_by_the_command_of_the_readme(world: Path, tmp_path: Path) -> None:
    """What follows the command makes it small: files and model of this world, one CPU."""
    python, *words = shlex.split(COMMAND.replace("\\\n", " "))
    assert python == "python"
    with openai(rewriting("Name a cold colour.")) as server:
        steps = ["trainer.total_training_steps=4"]
        training = Training(world, tmp_path / "training", [sys.executable, *words], steps).run()
    assert [step["training/global_step"] for step in training.metrics()] == [1, 2, 3, 4]
    events = training.events()
    assert events[0]["components"] == {"instruction": "Use the tools."}
    assert [event["step"] for event in events if event["event"] == "step_completed"] == [
        1,
        2,
        3,
        4,
    ]
    assert {request.body["model"] for request in server.requests} == {"gpt-5-mini"}
