"""The very prompt that an attached training sends to a writer, at default settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from evoprompt_trl.host import SHOWN_TOOLS

import evoprompt
from evoprompt.lm import LanguageModel, LmSettings
from evoprompt.proposers.background import Background
from evoprompt.proposers.reflection import Reflection
from evoprompt.testing.openai_server import OpenAIServer, chat_fields
from evoprompt.types import Setting

LOOK = {
    "type": "function",
    "function": {"name": "look", "description": "Looks a word up.", "parameters": {}},
}
OWN = "you are a guide ."


def never(completions: list[Any], **columns: Any) -> list[float]:
    """0 for whatever is said.

    Args:
        completions: what was said.
    """
    return [0.0] * len(completions)


@pytest.mark.lm
@pytest.mark.filterwarnings("ignore::evoprompt.errors.EvopromptWarning")
def test_the_writer_knows_the_prompt_the_tools_the_score_and_the_room(tmp_path: Path) -> None:
    answer = chat_fields(analysis="It guessed.", candidates=["look it up first", "be slow"])
    with OpenAIServer([], answer) as server:
        settings = LmSettings.model_validate({"model": "openai/scripted", "api_base": server.url})
        writer = Background(Reflection(LanguageModel(settings)))
        engine = evoprompt.Engine(["think first"], proposer=writer)
        trainer = tiny_trl.trainer(
            tmp_path,
            rows=tiny_trl.questions(instruction=OWN),
            rewards=[tiny_trl.short_words, never],
            reward_weights=[0.25, 2.0],
            max_steps=17,
        )
        setattr(trainer, SHOWN_TOOLS, [LOOK])
        before = engine.setting
        attachment = evoprompt.attach(trainer, engine)
        trainer.train()
        prompt = next(one.prompt for one in server.requests if "## episodes ##" in one.prompt)
        attachment.detach()
    assert engine.setting == before == Setting()
    told = prompt[prompt.rindex("[[ ## instruction ## ]]") :]
    assert "[[ ## instruction ## ]]\nthink first\n" in told
    assert (
        f"system: {OWN}\n\n[here stands the instruction]\n\n"
        "user: what is the capital of france ?" in told
    )
    assert '{"name": "look", "description": "Looks a word up.", "parameters": {}}' in told
    assert (
        "`short_words`: The share of words below five letters, so that rewards vary and can be "
        "learned. (weight 0.25)\n`never`: 0 for whatever is said. (weight 2)" in told
    )
    room = re.search(r"at most (\d+) tokens", told)
    assert room is not None
    assert int(room.group(1)) < tiny_trl.POSITIONS
    questions = re.findall(r"^Question: (.*)$", told, re.MULTILINE)
    episodes = [int(one) for one in re.findall(r"^Episode (\d+)$", told, re.MULTILINE)]
    assert episodes == [1, 2, 3, 4]
    assert len(set(questions[:4])) >= min(4, len(set(questions)))
