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
    attempt, policy, library = answer(
        search_o1,
        "I wonder. <search>ulm</search>",
        "<answer>Ulm is a city.</answer>",
        "<answer>Ada</answer>",
    )
    agent, reader, again = policy.asked
    assert library.queries == ["ulm"]
    assert reader.instruction == ENGLISH.reader
    assert "passage on ulm" in reader.given
    for known in ("Who?", "I wonder.", "ulm"):
        assert known in reader.question
    assert "Ulm is a city." in again.turns[0].observation
    assert "passage on ulm" not in again.turns[0].observation
    assert agent.question == again.question == "Who?"
    assert protocol.find_answer(attempt.turns) == "Ada"
    assert attempt.searches == 1


def test_a_reader_without_tags_is_quoted_whole(answer: Answer) -> None:
    attempt, _, _ = answer(search_o1, "<search>ulm</search>", "A city.", "<answer>Ada</answer>")
    assert "\nA city.\n" in attempt.turns[0].observation
