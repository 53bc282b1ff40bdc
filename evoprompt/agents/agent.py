"""Agent: actions and tool results in turns, as a generator that does no I/O.

It yields requests, for a sample from the policy or the result of a tool call, and a driver sends
it the responses; see ``drivers``. Tokens are only appended, so that a policy is evaluated on the
same sequences on which it was trained.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from evoprompt.agents.episode import Action, Broken, Episode, Result
from evoprompt.agents.protocol import Move, Protocol, ToolCall
from evoprompt.agents.thoughts import marks_of
from evoprompt.agents.tokenizer import Tokenizer

_PIECES = 1_000  # of frames with cached tokens, as they are repeated often
_TAIL = 32  # tokens in which a prompt may begin a thought
_CHARACTERS = 64
"""Characters of a result that are read for each permitted token; no tokenizer needs as many."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of an episode.

    Attributes:
        calls: maximum number of tool calls; a further call ends the episode without an answer.
        turn_tokens: maximum number of tokens of an action.
        observation_tokens: maximum number of tokens of an observation, including its frame; a
            longer one is cut at its end, within the frame.
    """

    calls: int
    turn_tokens: int
    observation_tokens: int

    @property
    def response_tokens(self) -> int:
        """Return the maximum number of tokens that an episode adds to its prompt."""
        return (self.calls + 1) * self.turn_tokens + self.calls * self.observation_tokens


@dataclass(frozen=True, slots=True)
class Sampling:
    """Conditions that end an action, in addition to the end of the text.

    Attributes:
        max_tokens: maximum number of tokens.
        stop: texts of which the first occurrence ends the action.
    """

    max_tokens: int
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """Request for the policy's action after ``episode.context``."""

    episode: Episode
    sampling: Sampling


Want = Sample | ToolCall
Given = Action | Result
EpisodeSteps = Generator[Want, Given, Episode]
"""An episode in progress; the response to a ``Sample`` is an ``Action`` or ``Broken``, that to a
``ToolCall`` is a ``Result``."""


class Agent:
    """Player of episodes with a protocol.

    Args:
        protocol: protocol of calls, results and answers.
        tokenizer: tokenizer of the policy.
        limits: limits of an episode.

    Raises:
        InputError: the tokenizer changes the marks of the protocol.
    """

    def __init__(self, protocol: Protocol, tokenizer: Tokenizer, limits: Limits) -> None:
        protocol.require(tokenizer)
        self.limits = limits
        self.sampling = Sampling(limits.turn_tokens, protocol.stop)
        self._protocol = protocol
        self._tokenizer = tokenizer
        self._marks = marks_of(tokenizer)
        self._piece = lru_cache(_PIECES)(self._encode)

    def play(self, prompt_ids: Sequence[int]) -> EpisodeSteps:
        """Run one episode after the prompt, step by step; the generator returns it at its end."""
        episode = Episode(list(prompt_ids))
        calls = 0
        while True:
            action = yield Sample(episode, self.sampling)
            if isinstance(action, Broken):
                episode.fail(action)
                return episode
            assert isinstance(action, Action)
            action_text = self._decode(action.ids)
            move = self._move(action_text, episode, action)
            episode.add_action(action, move.text)
            calls += len(move.calls)
            if not move.calls or calls > self.limits.calls:
                if move.calls:
                    episode.end = "out of turns"
                elif move.answer is not None:
                    episode.end, episode.answer = "answered", move.answer
                elif move.cut:
                    episode.end = "cut in thought"
                return episode
            results: list[str] = []
            for call in move.calls:
                result = f"Error: {call.fault}" if call.fault else (yield call)
                if isinstance(result, Broken):
                    episode.fail(result)
                    return episode
                assert isinstance(result, str)
                results.append(result)
            episode.show(*self.observation(move.calls, results, action_text))

    def observation(
        self, calls: Sequence[ToolCall], results: Sequence[str], action_text: str = ""
    ) -> tuple[list[int], str]:
        """Return the observation after calls, as tokens and text, cut if it is too long.

        Args:
            calls: calls of the action.
            results: a result for each call.
            action_text: the action, including special tokens.
        """
        frame = self._protocol.frame(calls, action_text)
        pieces = [self._piece(text) for text in frame]
        room = max(0, self.limits.observation_tokens - sum(map(len, pieces))) // len(results)
        ids, text = list(pieces[0]), frame[0]
        for result, piece, after in zip(results, pieces[1:], frame[1:], strict=True):
            body_text = self._protocol.frame_result(result[: room * _CHARACTERS])
            body = self._encode(body_text)
            if len(body) > room or len(result) > room * _CHARACTERS:
                body = body[:room]
                body_text = self._decode(body)
            ids += [*body, *piece]
            text += body_text + after
        return ids, text

    def _move(self, action_text: str, episode: Episode, action: Action) -> Move:
        """Return the effect of an action; the prompt before it may have begun a thought."""
        is_in_thought = self._marks.is_open_after(self._decode(episode.context[-_TAIL:]))
        parted = self._marks.part(action_text, is_in_thought=is_in_thought)
        if parted.cut or not self._protocol.skips_special_tokens:
            return self._protocol.read(action_text, self._marks, is_in_thought=is_in_thought)
        if not parted.thought and parted.remainder == action_text:
            plain = str(self._tokenizer.decode(action.ids, skip_special_tokens=True))
        else:
            ids = self._encode(self._marks.answer(parted.remainder))
            plain = str(self._tokenizer.decode(ids, skip_special_tokens=True))
        move = self._protocol.act(plain)
        return replace(move, text=replace(parted, remainder=move.text).text)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)
