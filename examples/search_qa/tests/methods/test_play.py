from __future__ import annotations

import re
from collections.abc import Sequence

from evoprompt_search_qa.methods.closed_book import closed_book
from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.methods.play import Method, answer
from evoprompt_search_qa.methods.rag import rag
from evoprompt_search_qa.methods.search_r1 import search_r1
from evoprompt_search_qa.policies.base import Policy
from evoprompt_search_qa.tool import SearchMany

from evoprompt.agents import Action, Broken, Episode, Sampling, TextTokenizer
from evoprompt.types import Question

QUESTIONS = [Question(f"q{number}", f"question {number}", ("a",)) for number in range(4)]


class Echo:
    """Answers with the question's number, searching for it first; fails on question 2."""

    tokenizer = TextTokenizer()

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        self.batches.append(len(episodes))
        return [self._reply(episode) for episode in episodes]

    def _reply(self, episode: Episode) -> Action | Broken:
        found = re.search(r"question (\d)", self.tokenizer.decode(episode.prompt_ids, False))
        assert found is not None
        number = found.group(1)
        if number == "2":
            return Broken("no answer for 2")
        text = f"<answer>{number}</answer>" if episode.turns else f"<search>{number}</search>"
        return Action(self.tokenizer.encode(text, add_special_tokens=False))


def find(queries: Sequence[str]) -> list[tuple[str, ...]]:
    return [(query,) for query in queries]


def broken(queries: Sequence[str]) -> list[tuple[str, ...]]:
    raise ConnectionError("server is down")


def played(
    method: Method, questions: Sequence[Question], search: SearchMany = find
) -> tuple[list[Episode], Echo]:
    echo = Echo()
    policy = Policy("echo", echo.tokenizer, lambda: echo)
    return answer(method, questions, "i", ENGLISH, policy, search), echo


def test_questions_advance_together_and_keep_their_order() -> None:
    episodes, policy = played(search_r1, QUESTIONS)
    assert policy.batches == [4, 3]
    said = [episode.turns[-1].action for episode in episodes if not episode.error]
    assert said == ["<answer>0</answer>", "<answer>1</answer>", "<answer>3</answer>"]


def test_a_reply_that_fails_costs_only_its_own_episode() -> None:
    episodes, _ = played(search_r1, QUESTIONS)
    assert [episode.error for episode in episodes] == ["", "", "no answer for 2", ""]
    assert [episode.end == "failed" for episode in episodes] == [False, False, True, False]


def test_a_search_that_fails_is_an_error_and_not_an_empty_result() -> None:
    episodes, _ = played(rag, QUESTIONS[:2], broken)
    assert [episode.error for episode in episodes] == ["server is down"] * 2
    assert all(episode.turns == [] for episode in episodes)


def test_what_was_said_before_an_error_is_kept() -> None:
    (episode,), _ = played(search_r1, QUESTIONS[:1], broken)
    assert [turn.action for turn in episode.turns] == ["<search>0</search>"]


def test_no_questions_ask_nothing() -> None:
    episodes, policy = played(closed_book, [])
    assert (episodes, policy.batches) == ([], [])
