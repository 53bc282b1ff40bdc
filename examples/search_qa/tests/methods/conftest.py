"""A policy that says what it is told to, so that only the method is tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.methods.play import Method, answer
from evoprompt_search_qa.policies.base import Policy

from evoprompt.agents import Action, Episode, Sampling, TextTokenizer
from evoprompt.types import Question


class Scripted:
    """Answers with the given replies in turn and remembers the texts it was to continue."""

    tokenizer = TextTokenizer()

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.asked: list[str] = []
        self.samplings: list[Sampling] = []

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action]:
        assert greedy
        self.asked += [self.tokenizer.decode(episode.context, False) for episode in episodes]
        self.samplings.append(sampling)
        said = [self.replies.pop(0) for _ in episodes]
        return [Action(self.tokenizer.encode(text, add_special_tokens=False)) for text in said]


class Library:
    """Finds one passage for every query and remembers the queries."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    def __call__(self, queries: Sequence[str]) -> list[tuple[str, ...]]:
        self.queries += queries
        return [(f"passage on {query}",) for query in queries]


Played = tuple[Episode, Scripted, Library]
Answer = Callable[..., Played]


@pytest.fixture(name="answer")
def answering() -> Answer:
    """Plays a method on the question 'Who?' with a policy that says the given replies."""

    def played(method: Method, *replies: str) -> Played:
        scripted, library = Scripted(*replies), Library()
        policy = Policy("scripted", scripted.tokenizer, lambda: scripted)
        question = Question("q", "Who?", ("Ada",))
        (episode,) = answer(method, [question], "Do it.", ENGLISH, policy, library)
        assert not scripted.replies, "the method did not want all replies"
        return episode, scripted, library

    return played
