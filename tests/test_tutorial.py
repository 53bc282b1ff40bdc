"""The tutorial of docs/plugins.md does what it says, from an empty folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from fresh_site import fresh_site

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
PLUGIN = ROOT / "plugins" / "evoprompt-hello"


@dataclass(frozen=True)
class Block:
    """A fenced block of the tutorial; ``title`` is empty for commands."""

    language: str
    title: str
    text: str


def tutorial() -> list[Block]:
    section = GUIDE.split("\n## ")[1]
    found = re.findall(r'^```(\w+)(?: title="([^"\n]+)")?\n(.*?)^```$', section, re.M | re.S)
    blocks = [Block(*parts) for parts in found]
    return [block for block in blocks if block.title or block.language == "console"]


def commands() -> list[str]:
    (block,) = [block for block in tutorial() if block.language == "console"]
    return [line.removeprefix("$ ") for line in block.text.splitlines()]


@pytest.mark.parametrize("block", [b for b in tutorial() if b.title], ids=lambda b: b.title)
def test_the_plugin_in_the_repository_is_the_one_of_the_tutorial(block: Block) -> None:
    assert (PLUGIN / block.title).read_text(encoding="utf-8") == block.text


def test_the_tutorial_has_under_40_lines_of_code() -> None:
    assert sum(bool(line.strip()) for block in tutorial() for line in block.text.splitlines()) < 40


@pytest.mark.nightly
def test_the_tutorial_s_commands_build_list_check_and_use_the_plugin(tmp_path: Path) -> None:
    folder = tmp_path / "evoprompt-hello"
    folder.mkdir()
    for block in tutorial():
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run = fresh_site(tmp_path)
    said = {command: run(command) for command in commands()}
    install, listing, check, use = commands()
    assert "Successfully installed evoprompt-hello-0.1.0" in said[install]
    assert re.search(
        r"proposer +evoprompt-hello 0\.1\.0\s+hello +Proposer that adds", said[listing]
    )
    assert "keeps what is required" in said[check]
    assert "FAIL" not in said[check]
    trial = tmp_path / "runs" / "tiny" / "trials" / "coevolve" / "seed-0"
    log = (trial / "events.jsonl").read_text(encoding="utf-8")
    assert re.search(r'"proposer": ?"hello"', log, re.IGNORECASE), said[use]
