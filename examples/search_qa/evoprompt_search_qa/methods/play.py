"""How methods are played: each is a generator that says or looks up; all advance together.

A method is written as if it answered a single question. The driver collects what all questions
want at the same time, so that policy and search see large batches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace

from evoprompt.types import Question, Turn
from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.dialect import Dialect
from evoprompt_search_qa.policies.base import Dialogue, Policy, PolicyError, Sampling

Search = Callable[[Sequence[str]], Sequence[Sequence[str]]]
"""The passages for each query, best first. An exception means that the tool broke."""


@dataclass(slots=True)
class Attempt:
    """One question on its way to an answer.

    Attributes:
        question: what is asked.
        instruction: how the policy is to behave.
        dialect: how the policy is spoken to.
        turns: what was said and shown so far; the answer is read from the last action.
        searches: searches that were answered.
        error: why there is no answer although nobody is to blame; empty if there is none.
    """

    question: Question
    instruction: str
    dialect: Dialect
    turns: list[Turn] = field(default_factory=list)
    searches: int = 0
    error: str = ""

    @property
    def dialogue(self) -> Dialogue:
        """What the policy is to continue."""
        return Dialogue(self.instruction, self.question.text, tuple(self.turns))


@dataclass(frozen=True, slots=True)
class Say:
    """Wants the policy to continue ``dialogue`` until one of the ``stop`` texts."""

    dialogue: Dialogue
    stop: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LookUp:
    """Wants the passages for ``query``."""

    query: str


Wish = Say | LookUp
Granted = str | tuple[str, ...]
Play = Generator[Wish, Granted, None]
Method = Callable[[Attempt], Play]
"""Answers one question by appending to the turns of its attempt."""


def say(dialogue: Dialogue, *stop: str) -> Generator[Wish, Granted, str]:
    """The policy's next action, for use with ``yield from``."""
    action = yield Say(dialogue, stop)
    assert isinstance(action, str)
    return action


def look_up(attempt: Attempt, query: str) -> Generator[Wish, Granted, tuple[str, ...]]:
    """The passages for ``query``, for use with ``yield from``; counts the search."""
    passages = yield LookUp(query)
    assert isinstance(passages, tuple)
    attempt.searches += 1
    return passages


def play(
    method: Method,
    questions: Sequence[Question],
    instruction: str,
    dialect: Dialect,
    policy: Policy,
    search: Search,
    temperature: float = 0.0,
) -> list[Attempt]:
    """Answers all ``questions`` by ``method``; one attempt a question, in order.

    A reply or a search that fails ends its attempt with an ``error`` and costs no other.
    """
    attempts = [Attempt(question, instruction, dialect) for question in questions]
    running = [_Running(attempt, method(attempt)) for attempt in attempts]
    running = [one for one in running if one.advance(None)]
    sampling = Sampling(dialect.action_tokens, temperature=temperature)
    while running:
        _speak([one for one in running if isinstance(one.wish, Say)], policy, sampling)
        _search([one for one in running if isinstance(one.wish, LookUp)], search)
        running = [one for one in running if not one.attempt.error and one.advance(one.granted)]
    return attempts


class _Running:
    """A method on the way, with what it wants now."""

    def __init__(self, attempt: Attempt, play: Play) -> None:
        self.attempt = attempt
        self.play = play
        self.wish: Wish
        self.granted: Granted = ""

    def advance(self, granted: Granted | None) -> bool:
        """Hands over what was wanted; whether the method wants more."""
        try:
            self.wish = next(self.play) if granted is None else self.play.send(granted)
        except StopIteration:
            return False
        return True


def _speak(speaking: Sequence[_Running], policy: Policy, sampling: Sampling) -> None:
    by_stop: dict[tuple[str, ...], list[tuple[_Running, Dialogue]]] = {}
    for one in speaking:
        assert isinstance(one.wish, Say)
        by_stop.setdefault(one.wish.stop, []).append((one, one.wish.dialogue))
    for stop, asked in by_stop.items():
        replies = policy.complete([dialogue for _, dialogue in asked], replace(sampling, stop=stop))
        for (one, _), reply in zip(asked, replies, strict=True):
            if isinstance(reply, PolicyError):
                one.attempt.error = str(reply)
            else:
                one.granted = reply


def _search(searching: Sequence[_Running], search: Search) -> None:
    if not searching:
        return
    queries = [one.wish.query for one in searching if isinstance(one.wish, LookUp)]
    try:
        found = search(queries)
    except Exception as error:  # whatever a tool raises, it is the tool that broke
        for one in searching:
            one.attempt.error = str(error) or type(error).__name__
        return
    for one, passages in zip(searching, found, strict=True):
        one.granted = tuple(passages)


def ask_agent(attempt: Attempt) -> Generator[Wish, Granted, str | None]:
    """One action of an agent with a search tool; the query it ends with, None if it is done."""
    action = yield from say(attempt.dialogue, protocol.END_SEARCH, protocol.END_ANSWER)
    attempt.turns.append(Turn(action))
    query = protocol.find_query(action)
    return None if attempt.searches == attempt.dialect.max_searches else query


def show(attempt: Attempt, observation: str) -> None:
    """Completes the last turn with what the environment shows."""
    attempt.turns[-1] = replace(attempt.turns[-1], observation=observation)
