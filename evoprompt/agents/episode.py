"""One rollout token by token, whichever policy, trainer or evaluation played it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

from evoprompt.types import Turn

End = Literal["answered", "malformed", "out of turns", "cut in thought", "failed"]
Decode = Callable[[list[list[int]]], list[str]]


@dataclass(frozen=True, slots=True)
class Action:
    """What the policy said in one go.

    Attributes:
        ids: its tokens.
        logprobs: log-probability of each at the sampling temperature, in nats; None where the
            sampler does not tell.
        message: what a server said it in, which is to go back as it came; None for tokens.
    """

    ids: list[int]
    logprobs: list[float] | None = None
    message: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """A sampler or a tool failed, which says nothing about the policy."""

    error: str


Result = str | Broken
"""What a tool call came to: a text for the policy to read, or the tool failed."""


@dataclass(slots=True)
class Episode:
    """What one rollout said and saw.

    Attributes:
        prompt_ids: tokens of the prompt.
        completion_ids: actions and observations in order.
        policy_mask: 1 for each completion token that the policy chose, 0 for what it was shown.
        logprobs: log-probability of each chosen token at the sampling temperature, in nats; 0
            for the others.
        turns: the same as text.
        messages: of the server that said each turn, None where it was tokens.
        end: why it ended; ``"cut in thought"`` when the policy still thought at its limit of
            tokens, ``"failed"`` when sampler or tool broke, which says nothing about the policy.
        answer: the final answer, None without one.
        error: what broke; empty if nothing did.
    """

    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    policy_mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    messages: list[Mapping[str, Any] | None] = field(default_factory=list)
    end: End = "malformed"
    answer: str | None = None
    error: str = ""

    @property
    def context(self) -> list[int]:
        """All tokens so far, after which the policy goes on."""
        return self.prompt_ids + self.completion_ids

    @property
    def tool_calls(self) -> int:
        """Number of actions that were followed by an observation."""
        return sum(bool(turn.observation) for turn in self.turns)

    def say(self, action: Action, text: str) -> None:
        """Appends what the policy said; ``text`` is what counts of it."""
        self._append(action.ids, action.logprobs, by_policy=True)
        self.turns.append(Turn(text))
        self.messages.append(action.message)

    def show(self, ids: Sequence[int], text: str) -> None:
        """Appends what the policy is shown after its last action, or before its first."""
        self._append(ids, None, by_policy=False)
        if not self.turns:
            self.turns.append(Turn(""))
            self.messages.append(None)
        self.turns[-1] = replace(self.turns[-1], observation=text)

    def fail(self, broken: Broken) -> None:
        """Ends the episode because something broke."""
        self.end, self.error = "failed", broken.error

    def _append(
        self, ids: Sequence[int], logprobs: Sequence[float] | None, *, by_policy: bool
    ) -> None:
        self.completion_ids += ids
        self.policy_mask += [int(by_policy)] * len(ids)
        self.logprobs += [0.0] * len(ids) if logprobs is None else logprobs


def split(ids: Sequence[int], mask: Sequence[int | bool]) -> list[tuple[list[int], list[int]]]:
    """Pairs of the tokens of an action and those of the observation after it, oldest first.

    The first action is empty where the policy was shown something before it spoke, the last
    observation where it spoke last.

    Args:
        ids: tokens that followed the prompt, without padding.
        mask: of the same length; true where the policy chose the token.

    >>> split([1, 2, 3, 4], [1, 1, 0, 1])
    [([1, 2], [3]), ([4], [])]
    """
    pairs: list[tuple[list[int], list[int]]] = []
    for by_policy, span in groupby(zip(ids, mask, strict=True), key=lambda pair: bool(pair[1])):
        tokens = [token for token, _ in span]
        if by_policy:
            pairs.append((tokens, []))
        elif pairs:
            pairs[-1][1].extend(tokens)
        else:
            pairs.append(([], tokens))
    return pairs


def token_metrics(mask: Sequence[int | bool]) -> dict[str, float]:
    """``response_tokens``, the policy's own, and ``tool_calls``, the observations it got.

    Args:
        mask: of the tokens that followed the prompt, true where the policy chose the token.

    >>> token_metrics([1, 1, 0, 0, 1, 0])
    {'response_tokens': 3.0, 'tool_calls': 2.0}
    """
    chosen = [bool(one) for one in mask]
    observations = sum(not policy for policy, _ in groupby(chosen))
    return {"response_tokens": float(sum(chosen)), "tool_calls": float(observations)}


def turns(ids: Sequence[int], mask: Sequence[int | bool], decode: Decode) -> tuple[Turn, ...]:
    """The actions and the observations that followed them, as text; see :func:`split`.

    Args:
        ids: tokens that followed the prompt, without padding.
        mask: of the same length.
        decode: texts of spans of tokens.
    """
    pairs = split(ids, mask)
    texts = iter(decode([span for pair in pairs for span in pair if span]))
    return tuple(
        Turn(next(texts) if said else "", next(texts) if shown else "") for said, shown in pairs
    )
