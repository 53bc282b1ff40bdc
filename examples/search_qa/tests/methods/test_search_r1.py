from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.methods.search_r1 import search_r1

Answer = Callable[..., Any]  # the fixture of conftest.py, which cannot be imported


def test_queries_are_answered_until_it_answers(answer: Answer) -> None:
    attempt, policy, library = answer(
        search_r1, "<search>one</search>", "<search>two</search>", "<answer>Ada</answer>"
    )
    assert library.queries == ["one", "two"]
    assert [turn.action for turn in policy.asked[2].turns] == [
        "<search>one</search>",
        "<search>two</search>",
    ]
    assert "passage on two" in policy.asked[2].turns[1].observation
    assert protocol.find_answer(attempt.turns) == "Ada"
    assert policy.samplings[0].stop == ("</search>", "</answer>")


def test_a_search_too_many_ends_it(answer: Answer) -> None:
    queries = [f"<search>{number}</search>" for number in range(ENGLISH.max_searches + 1)]
    attempt, _, library = answer(search_r1, *queries)
    assert len(library.queries) == attempt.searches == ENGLISH.max_searches
    assert attempt.turns[-1].observation == ""
