"""How methods are played: each is a generator like the agent's own, and all advance together.

A method is written as if it answered a single question.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from evoprompt.agents import (
    Agent,
    Broken,
    Call,
    ChatTokenizer,
    Episode,
    Play,
    Result,
    Sample,
    Sampling,
    encode,
    play,
)
from evoprompt.agents.agent import Given, Want
from evoprompt.errors import EvopromptError
from evoprompt.types import Question, Turn
from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.dialect import Dialect
from evoprompt_search_qa.policies.base import Policy
from evoprompt_search_qa.tool import SearchCaller, SearchMany


@dataclass(slots=True)
class Attempt:
    """One question on its way to an answer.

    Attributes:
        question: what is asked.
        instruction: how the policy is to behave.
        dialect: how the policy is spoken to.
        tokenizer: of the policy.
        agent: that of training.
        episode: what was said and shown so far; the answer is read from the last action.
    """

    question: Question
    instruction: str
    dialect: Dialect
    tokenizer: ChatTokenizer
    agent: Agent
    episode: Episode = field(default_factory=lambda: Episode([]))

    def prompt_ids(
        self, given: str = "", *, instruction: str | None = None, question: str | None = None
    ) -> list[int]:
        """The prompt, with what is given with the question."""
        how = self.instruction if instruction is None else instruction
        what = self.question.text if question is None else question
        return encode(self.tokenizer, self.dialect.prompt(self.tokenizer, how, what, given))

    def begin(self, given: str = "") -> None:
        """Begins the episode, with what is given with the question as its first observation."""
        self.episode = Episode(self.prompt_ids(given))
        if given:
            self.episode.turns.append(Turn("", given))

    def show(self, text: str) -> None:
        """Shows the policy something after its last action."""
        self.episode.show(self.tokenizer.encode(text, add_special_tokens=False), text)


Steps = Generator[Want, Given, None]
Method = Callable[[Attempt], Steps]
"""Answers one question by playing the episode of its attempt."""
CallMany = Callable[[Sequence[Call]], Sequence[Result]]


class _BrokenError(EvopromptError):
    def __init__(self, broken: Broken) -> None:
        super().__init__(broken.error)
        self.broken = broken


def say(attempt: Attempt, episode: Episode, *stop: str) -> Generator[Want, Given, str]:
    """The policy's next action in ``episode``, up to one of the texts; with ``yield from``."""
    action = yield Sample(episode, Sampling(attempt.dialect.limits.turn_tokens, stop))
    if isinstance(action, Broken):
        raise _BrokenError(action)
    assert not isinstance(action, str)
    said = str(attempt.tokenizer.decode(action.ids, skip_special_tokens=True))
    ends = [at + len(text) for text in stop if (at := said.find(text)) >= 0]
    episode.say(action, text := said[: min(ends)] if ends else said)
    return text


def look_up(query: str) -> Generator[Want, Given, str]:
    """The passages for ``query``; with ``yield from``."""
    result = yield Call(protocol.SEARCHING.call, {protocol.SEARCHING.argument: query})
    if isinstance(result, Broken):
        raise _BrokenError(result)
    assert isinstance(result, str)
    return result


def answer(
    method: Method,
    questions: Sequence[Question],
    instruction: str,
    dialect: Dialect,
    policy: Policy,
    search: SearchMany,
) -> list[Episode]:
    """Answers all ``questions`` by ``method``, greedily; one episode per question, in order.

    A reply or a search that fails ends its episode as failed and costs no other.
    """
    agent = Agent(dialect.protocol, policy.tokenizer, dialect.limits)
    plays = [
        _played(method, Attempt(question, instruction, dialect, policy.tokenizer, agent))
        for question in questions
    ]
    caller = _tolerant(SearchCaller(search, dialect.shown))
    return play(plays, policy.sampler(), caller, greedy=True)


def _played(method: Method, attempt: Attempt) -> Play:
    try:
        yield from method(attempt)
    except _BrokenError as error:
        attempt.episode.fail(error.broken)
    return attempt.episode


def _tolerant(call: CallMany) -> CallMany:
    """Calls whose exceptions are results: whatever a tool raises, it is the tool that broke."""

    def caught(calls: Sequence[Call]) -> Sequence[Result]:
        try:
            return call(calls)
        except Exception as error:
            return [Broken(str(error) or type(error).__name__)] * len(calls)

    return caught


def ask_agent(attempt: Attempt) -> Generator[Want, Given, str | None]:
    """One action of an agent with a search tool; the query it ends with, None if it is done."""
    action = yield from say(attempt, attempt.episode, *attempt.dialect.protocol.stop)
    query = protocol.find_query(action)
    return None if attempt.episode.tool_calls == attempt.dialect.limits.calls else query
