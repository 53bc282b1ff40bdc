"""What a writer is told of an attached training; the contract has the rest of its request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny_trl
from evoprompt_trl.host import SHOWN_TOOLS
from pydantic import JsonValue

import evoprompt
from evoprompt.types import TaskContext

LOOK: dict[str, JsonValue] = {
    "type": "function",
    "function": {"name": "look", "description": "Looks a word up.", "parameters": {}},
}


def never(completions: list[Any], **columns: Any) -> list[float]:
    """0 for whatever is said.

    Args:
        completions: what was said.
    """
    return [0.0] * len(completions)


def test_the_writer_knows_the_prompt_the_tools_and_the_score(tmp_path: Path) -> None:
    engine = evoprompt.Engine(["think first"])
    trainer = tiny_trl.trainer(
        tmp_path,
        rows=tiny_trl.questions(instruction="you are a guide ."),
        rewards=[tiny_trl.short_words, never],
        reward_weights=[0.25, 2.0],
    )
    setattr(trainer, SHOWN_TOOLS, [LOOK])
    before = engine.setting
    attachment = evoprompt.attach(trainer, engine)
    assert engine.setting == TaskContext(
        "system: you are a guide .\n\n[here stands the instruction]\n\n"
        "user: what is the capital of france ?",
        [LOOK],
        "`short_words`: The share of words below five letters, so that rewards vary and can be "
        "learned. (weight 0.25)\n`never`: 0 for whatever is said. (weight 2)",
    )
    attachment.detach()
    assert engine.setting == before == TaskContext()
