from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.methods.search_o1 import search_o1

Answer = Callable[..., Any]  # the fixture of conftest.py, which cannot be imported


def test_the_agent_sees_what_the_reader_made_of_the_passages(
    answer: Answer,
) -> None:
    episode, policy, library = answer(
        search_o1,
        "I wonder. <search>ulm</search>",
        "<answer>Ulm is a city.</answer>",
        "<answer>Ada</answer>",
    )
    agent, reader, again = policy.asked
    assert library.queries == ["ulm"]
    assert ENGLISH.reader in reader
    assert "passage on ulm" in reader
    for known in ("Who?", "I wonder.", "ulm"):
        assert known in reader
    assert "Ulm is a city." in again
    assert "passage on ulm" not in again
    assert again.startswith(agent)
    assert protocol.find_answer(episode.turns) == "Ada"
    assert episode.tool_calls == 1


def test_a_reader_without_tags_is_quoted_whole(answer: Answer) -> None:
    episode, _, _ = answer(search_o1, "<search>ulm</search>", "A city.", "<answer>Ada</answer>")
    assert "\nA city.\n" in episode.turns[0].observation
