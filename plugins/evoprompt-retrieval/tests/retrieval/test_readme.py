"""The commands of the README are executed, and its other options exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from evoprompt_retrieval.commands import app
from typer.main import get_command
from typer.testing import CliRunner

ROOT = Path(__file__).parents[4]
README = (ROOT / "plugins" / "evoprompt-retrieval" / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"(?:^|&& )evoprompt retriever (.*)$", README, flags=re.MULTILINE)


def test_the_first_commands_build_an_index_and_find_a_passage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    build, query = (line.replace("runs/passages", str(tmp_path)) for line in COMMANDS[:2])
    assert "bm25 index of 6 passages" in said(build)
    assert said(query).startswith('"Ulm Minster"\n')


def said(command: str) -> str:
    ended = CliRunner().invoke(app, shlex.split(command))
    assert ended.exit_code == 0, ended.output
    return ended.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_exists(command: str) -> None:
    name, *options = shlex.split(command)
    group: Any = get_command(app)
    group.commands[name].make_context(name, options)
