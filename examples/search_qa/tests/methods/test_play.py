from __future__ import annotations

from collections.abc import Sequence

from evoprompt_search_qa.methods.closed_book import closed_book
from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.methods.play import play
from evoprompt_search_qa.methods.rag import rag
from evoprompt_search_qa.methods.search_r1 import search_r1
from evoprompt_search_qa.policies.base import Dialogue, PolicyError, Reply, Sampling

from evoprompt.types import Question

QUESTIONS = [Question(f"q{number}", f"question {number}", ("a",)) for number in range(4)]


class Echo:
    """Answers with the question's number, searching for it first; fails on question 2."""

    name = "echo"

    def __init__(self) -> None:
        self.batches: list[int] = []

    def complete(self, dialogues: Sequence[Dialogue], sampling: Sampling) -> list[Reply]:
        self.batches.append(len(dialogues))
        return [self._reply(dialogue) for dialogue in dialogues]

    def _reply(self, dialogue: Dialogue) -> Reply:
        number = dialogue.question[-1]
        if number == "2":
            return PolicyError("no answer for 2")
        return f"<answer>{number}</answer>" if dialogue.turns else f"<search>{number}</search>"


def find(queries: Sequence[str]) -> list[tuple[str, ...]]:
    return [(query,) for query in queries]


def test_questions_advance_together_and_keep_their_order() -> None:
    policy = Echo()
    attempts = play(search_r1, QUESTIONS, "i", ENGLISH, policy, find)
    assert policy.batches == [4, 3]
    assert [attempt.question for attempt in attempts] == QUESTIONS
    said = [attempt.turns[-1].action for attempt in attempts if not attempt.error]
    assert said == ["<answer>0</answer>", "<answer>1</answer>", "<answer>3</answer>"]


def test_a_reply_that_fails_costs_only_its_own_attempt() -> None:
    attempts = play(search_r1, QUESTIONS, "i", ENGLISH, Echo(), find)
    assert [attempt.error for attempt in attempts] == ["", "", "no answer for 2", ""]


def test_a_search_that_fails_is_an_error_and_not_an_empty_result() -> None:
    def broken(queries: Sequence[str]) -> list[tuple[str, ...]]:
        raise ConnectionError("server is down")

    attempts = play(rag, QUESTIONS[:2], "i", ENGLISH, Echo(), broken)
    assert [attempt.error for attempt in attempts] == ["server is down"] * 2
    assert all(attempt.turns == [] for attempt in attempts)


def test_what_was_said_before_an_error_is_kept() -> None:
    def broken(queries: Sequence[str]) -> list[tuple[str, ...]]:
        raise ConnectionError("server is down")

    (attempt,) = play(search_r1, QUESTIONS[:1], "i", ENGLISH, Echo(), broken)
    assert [turn.action for turn in attempt.turns] == ["<search>0</search>"]


def test_no_questions_ask_nothing() -> None:
    policy = Echo()
    assert play(closed_book, [], "i", ENGLISH, policy, find) == []
    assert policy.batches == []
