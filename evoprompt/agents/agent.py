"""The agent: actions and tool results in turns, as a generator that does no I/O.

It says what it wants, a sample from the policy or the result of a tool call, and is given it by
whoever runs it; see ``drivers``. Tokens are only ever appended, so that what a policy was trained
on is what it is evaluated on.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from evoprompt.agents.episode import Action, Broken, Episode, Result
from evoprompt.agents.protocol import Call, Move, Protocol
from evoprompt.agents.thoughts import marks_of
from evoprompt.agents.tokenizer import Tokenizer

_PIECES = 1_000  # of frames whose tokens are remembered, as they come again and again
_TAIL = 32  # tokens in which a prompt may begin a thought
_CHARACTERS = 64
"""Of a result that are read for each token it may have; no tokenizer needs as many."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an episode may use.

    Attributes:
        calls: most tool calls; a further one ends the episode without an answer.
        turn_tokens: most tokens per action.
        observation_tokens: most tokens an observation, its frame included; what is longer is cut
            at its end, within the frame.
    """

    calls: int
    turn_tokens: int
    observation_tokens: int

    @property
    def response_tokens(self) -> int:
        """Most tokens an episode adds to its prompt."""
        return (self.calls + 1) * self.turn_tokens + self.calls * self.observation_tokens


@dataclass(frozen=True, slots=True)
class Sampling:
    """Where an action ends, besides at the end of the text.

    Attributes:
        max_tokens: most tokens.
        stop: it ends with the first of these texts.
    """

    max_tokens: int
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """Wants what the policy says after ``episode.context``."""

    episode: Episode
    sampling: Sampling


Want = Sample | Call
Given = Action | Result
EpisodeSteps = Generator[Want, Given, Episode]
"""An episode on its way; a ``Sample`` is to be answered by an ``Action`` or ``Broken``, a ``Call``
by a ``Result``."""


class Agent:
    """Plays episodes of a protocol.

    Args:
        protocol: how calls, results and answers are written.
        tokenizer: of the policy.
        limits: what an episode may use.

    Raises:
        InputError: the tokenizer breaks what the protocol writes.
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
        """The steps of one episode after the prompt; the generator returns it at its end."""
        episode = Episode(list(prompt_ids))
        calls = 0
        while True:
            action = yield Sample(episode, self.sampling)
            if isinstance(action, Broken):
                episode.fail(action)
                return episode
            assert isinstance(action, Action)
            said = self._decode(action.ids)
            move = self._move(said, episode, action)
            episode.say(action, move.text)
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
            episode.show(*self.observation(move.calls, results, said))

    def observation(
        self, calls: Sequence[Call], results: Sequence[str], said: str = ""
    ) -> tuple[list[int], str]:
        """What the policy is shown after its calls: tokens and text, cut where it is too long.

        Args:
            calls: of the action.
            results: one per call.
            said: the action, special tokens included.
        """
        frame = self._protocol.frame(calls, said)
        pieces = [self._piece(text) for text in frame]
        room = max(0, self.limits.observation_tokens - sum(map(len, pieces))) // len(results)
        ids, text = list(pieces[0]), frame[0]
        for result, piece, after in zip(results, pieces[1:], frame[1:], strict=True):
            shown = self._protocol.shown(result[: room * _CHARACTERS])
            body = self._encode(shown)
            if len(body) > room or len(result) > room * _CHARACTERS:
                body = body[:room]
                shown = self._decode(body)
            ids += [*body, *piece]
            text += shown + after
        return ids, text

    def _move(self, said: str, episode: Episode, action: Action) -> Move:
        """What an action does, before which the prompt may have begun a thought."""
        opened = self._marks.opened_by(self._decode(episode.context[-_TAIL:]))
        parted = self._marks.part(said, opened=opened)
        if parted.cut or not self._protocol.skips_special_tokens:
            return self._protocol.read(said, self._marks, opened=opened)
        if not parted.thought and parted.rest == said:
            plain = str(self._tokenizer.decode(action.ids, skip_special_tokens=True))
        else:
            ids = self._encode(self._marks.answer(parted.rest))
            plain = str(self._tokenizer.decode(ids, skip_special_tokens=True))
        move = self._protocol.act(plain)
        return replace(move, text=replace(parted, rest=move.text).text)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)
