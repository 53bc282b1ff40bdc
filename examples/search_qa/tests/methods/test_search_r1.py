from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.methods.search_r1 import search_r1

Answer = Callable[..., Any]  # the fixture of conftest.py, which cannot be imported


def test_queries_are_answered_until_it_answers(answer: Answer) -> None:
    episode, policy, library = answer(
        search_r1, "<search>one</search>", "<search>two</search>", "<answer>Ada</answer>"
    )
    assert library.queries == ["one", "two"]
    shown = "</search>\n\n<information>\n[1] passage on {}\n</information>\n\n"
    assert policy.asked[2].endswith(
        "<search>one" + shown.format("one") + "<search>two" + shown.format("two")
    )
    assert protocol.find_answer(episode.turns) == "Ada"
    assert policy.samplings[0].stop == ("</search>", "</answer>")


def test_a_search_too_many_ends_it(answer: Answer) -> None:
    queries = [f"<search>{number}</search>" for number in range(ENGLISH.limits.calls + 1)]
    episode, _, library = answer(search_r1, *queries)
    assert len(library.queries) == episode.tool_calls == ENGLISH.limits.calls
    assert episode.turns[-1].observation == ""
