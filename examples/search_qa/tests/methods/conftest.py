"""A policy that says what it is told to, so that only the method is tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.methods.play import Attempt, Method, play
from evoprompt_search_qa.policies.base import Dialogue, Reply, Sampling

from evoprompt.types import Question


class Scripted:
    """Answers with the given replies in turn and remembers what it was asked."""

    name = "scripted"

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[Dialogue] = []
        self.samplings: list[Sampling] = []

    def complete(self, dialogues: Sequence[Dialogue], sampling: Sampling) -> list[Reply]:
        self.asked += dialogues
        self.samplings.append(sampling)
        return [self.replies.pop(0) for _ in dialogues]


class Library:
    """Finds one passage for every query and remembers the queries."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    def __call__(self, queries: Sequence[str]) -> list[tuple[str, ...]]:
        self.queries += queries
        return [(f"passage on {query}",) for query in queries]


Played = tuple[Attempt, Scripted, Library]
Answer = Callable[..., Played]


@pytest.fixture
def answer() -> Answer:
    """Plays a method on the question 'Who?' with a policy that says the given replies."""

    def answering(method: Method, *replies: str) -> Played:
        policy, library = Scripted(*replies), Library()
        question = Question("q", "Who?", ("Ada",))
        (attempt,) = play(method, [question], "Do it.", ENGLISH, policy, library)
        assert not policy.replies, "the method did not want all replies"
        return attempt, policy, library

    return answering
