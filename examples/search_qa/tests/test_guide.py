"""The commands of docs/search-qa.md; tests/test_executed_commands.py executes them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from command_line import evoprompt, stderr_of

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "search-qa.md").read_text(encoding="utf-8")
FOREIGN = ("pip install", "hf download", "vllm serve")
"""Commands of other programs, which would download or serve."""

LAUNCH = re.compile(r"accelerate launch --num_processes (\d+) -m ")
DRY = ("run", "retriever build", "retriever serve", "retriever query")
PREPARE = "search-qa data prepare"


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if not line.startswith(FOREIGN)]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root's conftest fails a command that leaves something there."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_every_command_is_one_of_ours_and_the_page_has_the_whole_way() -> None:
    found = [LAUNCH.sub("", line) for line in commands()]
    assert all(line.startswith("evoprompt ") for line in found)
    for step in (*DRY, "best", "eval", PREPARE):
        assert any(line.startswith(f"evoprompt {step} ") for line in found), step


def test_the_options_of_the_preparation_are_known() -> None:
    found = [line for line in commands() if line.startswith(f"evoprompt {PREPARE} ")]
    assert all(evoprompt(*shlex.split(line)[1:], "--help") == 0 for line in found)
    assert evoprompt(*PREPARE.split(), "--sauce", "x", "--help") == 2


def test_the_evaluation_says_what_is_missing_here_before_it_asks(tmp_path: Path) -> None:
    (command,) = (line for line in commands() if line.startswith("evoprompt eval "))
    written = tmp_path / "instruction.txt"
    written.write_text(
        "Use <think> </think> <search> </search> <information> </information> <answer> </answer>.",
        encoding="utf-8",
    )
    command = command.replace("instruction.txt", str(written))
    error = stderr_of(*shlex.split(command)[1:], "--output", str(tmp_path / "out"))
    assert "search server" in error
    assert " -> " in error
    assert not (tmp_path / "out").exists()


def test_as_many_processes_are_launched_as_the_configuration_asks_for() -> None:
    launched = [
        (int(LAUNCH.findall(line)[0]), line)
        for line in commands()
        if LAUNCH.match(line) and ".yaml" in line
    ]
    assert launched
    for count, line in launched:
        (config,) = re.findall(r"examples/\S+\.yaml", line)
        assert f"processes: {count} " in (ROOT / config).read_text(encoding="utf-8")
        assert "--output " in line
