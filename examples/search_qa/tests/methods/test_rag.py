from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.rag import rag

Answer = Callable[..., Any]  # the fixture of conftest.py, which cannot be imported


def test_passages_for_the_question_are_given_with_it(answer: Answer) -> None:
    episode, policy, library = answer(rag, "<answer>Ada</answer>")
    assert library.queries == ["Who?"]
    assert "passage on Who?" in policy.asked[0]
    assert protocol.find_answer(episode.turns) == "Ada"
    assert episode.tool_calls == 1
