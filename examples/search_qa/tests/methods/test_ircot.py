from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.methods.ircot import ircot

Answer = Callable[..., Any]  # the fixture of conftest.py, which cannot be imported


def test_every_thought_is_searched_for(answer: Answer) -> None:
    episode, policy, library = answer(
        ircot, "<think> the first fact </think>", "<answer>Ada</answer>"
    )
    assert library.queries == ["Who?", "the first fact"]
    assert "passage on the first fact" in policy.asked[1]
    assert protocol.find_answer(episode.turns) == "Ada"


def test_it_answers_from_what_was_found_when_the_searches_are_used_up(
    answer: Answer,
) -> None:
    thoughts = [f"<think>{number}</think>" for number in range(ENGLISH.limits.calls - 1)]
    episode, policy, library = answer(ircot, *thoughts, "<answer>Ada</answer>")
    assert len(library.queries) == ENGLISH.limits.calls
    assert ENGLISH.reader in policy.asked[-1]
    assert protocol.find_answer(episode.turns) == "Ada"


def test_an_action_without_a_thought_ends_it(answer: Answer) -> None:
    episode, _, library = answer(ircot, "I give up.")
    assert library.queries == ["Who?"]
    assert protocol.find_answer(episode.turns) is None
