"""Inference methods of the paper's Table 1 beside the trained agent.

Each is written for a single question, as a generator of requests like the agent's own; all
questions advance together. Departures from the published methods are documented in each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from evoprompt.agents import (
    Broken,
    ChatTokenizer,
    Episode,
    EpisodeSteps,
    Limits,
    Sample,
    Sampling,
    ToolCall,
    encode,
)
from evoprompt.agents.agent import Given, Want
from evoprompt.agents.tasks import Method
from evoprompt.hosting.prompts import Placement
from evoprompt.support.errors import EvopromptError
from evoprompt.types import Question, Turn
from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods import words

Steps = Generator[Want, Given, None]

_THOUGHT = re.compile(rf"{protocol.THINK}(.*?){protocol.END_THINK}", re.DOTALL)


@dataclass(slots=True)
class Attempt:
    """Question on its way to an answer.

    Attributes:
        question: the question.
        instruction: for the policy.
        placement: of the instruction in a prompt, as in training.
        tokenizer: of the policy.
        limits: of the episode.
        episode: actions and observations so far; the answer is read from the last action.
    """

    question: Question
    instruction: str
    placement: Placement
    tokenizer: ChatTokenizer
    limits: Limits
    episode: Episode = field(default_factory=lambda: Episode([]))

    def prompt_ids(
        self, passages: str = "", *, instruction: str | None = None, question: str | None = None
    ) -> list[int]:
        """Return the prompt, with the passages before the question."""
        how = self.instruction if instruction is None else instruction
        question_text = self.question.text if question is None else question
        prompt = words.prompt(self.tokenizer, self.placement, how, question_text, passages)
        return encode(self.tokenizer, prompt)

    def begin(self, passages: str = "") -> None:
        """Begin the episode; passages before the question are its first observation."""
        self.episode = Episode(self.prompt_ids(passages))
        if passages:
            self.episode.turns.append(Turn("", passages))
            self.episode.messages.append({})

    def show(self, text: str) -> None:
        """Show a text to the policy after its last action."""
        self.episode.show(self.tokenizer.encode(text, add_special_tokens=False), text)

    def act(self, episode: Episode, *stop: str) -> Generator[Want, Given, str]:
        """Return the policy's next action in ``episode``, up to a stop text; for ``yield from``."""
        action = yield Sample(episode, Sampling(self.limits.turn_tokens, stop))
        if isinstance(action, Broken):
            raise _BrokenError(action)
        assert not isinstance(action, str)
        text_so_far = str(self.tokenizer.decode(action.ids, skip_special_tokens=True))
        ends = [at + len(text) for text in stop if (at := text_so_far.find(text)) >= 0]
        episode.add_action(action, text := text_so_far[: min(ends)] if ends else text_so_far)
        return text


class _BrokenError(EvopromptError):
    def __init__(self, broken: Broken) -> None:
        super().__init__(broken.error)
        self.broken = broken


def look_up(query: str) -> Generator[Want, Given, str]:
    """Return the passages for ``query``; for ``yield from``."""
    result = yield ToolCall(protocol.SEARCHING.call, {protocol.SEARCHING.argument: query})
    if isinstance(result, Broken):
        raise _BrokenError(result)
    assert isinstance(result, str)
    return result


def closed_book(attempt: Attempt) -> Steps:
    """Play one action; a query in it is not answered.

    This serves direct answers, and chain of thought (Wei et al., 2022, arXiv 2201.11903) without
    examples: its instruction requests the thinking, as in Kojima et al., 2022, arXiv 2205.11916.
    """
    attempt.begin()
    yield from attempt.act(attempt.episode, protocol.END_ANSWER)


def rag(attempt: Attempt) -> Steps:
    """Search for the question itself, and play one action after the passages.

    Retrieval-augmented generation (Lewis et al., 2020, arXiv 2005.11401). Departure: retriever and
    policy are taken as they are and the passages share one prompt, as in the baselines of
    Search-R1 (arXiv 2503.09516); the paper trains both and sums over passages.
    """
    query = attempt.question.text
    attempt.begin(words.passages(query, (yield from look_up(query))))
    yield from attempt.act(attempt.episode, protocol.END_ANSWER)


def ircot(attempt: Attempt) -> Steps:
    """Search for the question, then for each thought, then answer.

    IRCoT (Trivedi et al., 2023, arXiv 2212.10509): when the searches are used up, the policy has to
    answer from the passages so far. Departures: no worked examples in the prompt; passages keep
    their place instead of a new order before the question; a thought is the text between the think
    tags, not a sentence.
    """
    query = attempt.question.text
    passages = words.passages(query, (yield from look_up(query)))
    attempt.begin(passages)
    while attempt.episode.tool_calls < attempt.limits.calls:
        action = yield from attempt.act(attempt.episode, protocol.END_THINK, protocol.END_ANSWER)
        thought = _THOUGHT.search(action)
        if protocol.find_answer(attempt.episode.turns) is not None or thought is None:
            return
        query = thought.group(1).strip()
        attempt.show(words.passages(query, (yield from look_up(query))))
    reading = attempt.prompt_ids(passages, instruction=words.READER)
    attempt.episode = replace(attempt.episode, prompt_ids=reading)
    yield from attempt.act(attempt.episode, protocol.END_ANSWER)


def search_o1(attempt: Attempt) -> Steps:
    """Play as the agent, with a digest in place of the passages, which it never sees.

    Search-o1 (Li et al., 2025, arXiv 2501.05366): after each search the policy reads the passages
    in a separate prompt with the question, the thoughts so far and the query; only its digest
    enters the dialogue. Departures: the protocol's search tags instead of the paper's marks;
    passages come from the one retriever of the evaluation, not from the web.
    """
    attempt.begin()
    while True:
        action = yield from attempt.act(attempt.episode, *protocol.SEARCHING.stop)
        query = protocol.find_query(action)
        if query is None or attempt.episode.tool_calls == attempt.limits.calls:
            return
        passages = words.passages(query, (yield from look_up(query)))
        thoughts = "".join(turn.action for turn in attempt.episode.turns)
        task = words.task_for_reader(attempt.question.text, thoughts, query)
        aside = Episode(attempt.prompt_ids(passages, instruction=words.READER, question=task))
        reading = yield from attempt.act(aside, protocol.END_ANSWER)
        # A digest in the wrong form may still help; the agent decides.
        digest = protocol.find_answer([Turn(reading)])
        attempt.show(words.digest(reading.strip() if digest is None else digest))


METHODS: Mapping[str, tuple[str, Callable[[Attempt], Steps]]] = {
    "direct": ("Direct", closed_book),
    "cot": ("Chain of thought", closed_book),
    "rag": ("RAG", rag),
    "ircot": ("IRCoT", ircot),
    "search-o1": ("Search-o1", search_o1),
}
"""Title and steps, in the order of the paper's Table 1."""


def methods(placement: Placement) -> Mapping[str, Method]:
    """Return the methods, for a language model with instructions at ``placement``."""
    return {
        name: Method(title, words.INSTRUCTIONS[name], partial(_begin, steps, placement))
        for name, (title, steps) in METHODS.items()
    }


def _begin(
    steps: Callable[[Attempt], Steps],
    placement: Placement,
    tokenizer: ChatTokenizer,
    limits: Limits,
    question: Question,
    instruction: str,
) -> EpisodeSteps:
    attempt = Attempt(question, instruction, placement, tokenizer, limits)
    try:
        yield from steps(attempt)
    except _BrokenError as error:
        attempt.episode.fail(error.broken)
    return attempt.episode
