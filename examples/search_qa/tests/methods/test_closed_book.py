from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.closed_book import closed_book

Answer = Callable[..., Any]  # the fixture of conftest.py, which cannot be imported


def test_it_takes_one_action_and_never_searches(answer: Answer) -> None:
    episode, policy, library = answer(closed_book, "<search> who </search>")
    assert library.queries == []
    assert episode.tool_calls == 0
    assert protocol.find_answer(episode.turns) is None
    assert "Do it." in policy.asked[0]
    assert policy.samplings[0].stop == ("</answer>",)
