"""Record of a rollout, token by token, of any policy, trainer or evaluation."""

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
    """Text of the policy in one turn.

    Attributes:
        ids: tokens of the action.
        logprobs: log-probability of each token at the sampling temperature, in nats; None if the
            sampler does not return any.
        message: message of a server, which is sent back unchanged; None for tokens.
    """

    ids: list[int]
    logprobs: list[float] | None = None
    message: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """Failure of a sampler or a tool, which is no evidence about the policy."""

    error: str


Result = str | Broken
"""Result of a tool call: a text for the policy to read, or a failure of the tool."""


@dataclass(slots=True)
class Episode:
    """Actions and observations of one rollout.

    Attributes:
        prompt_ids: tokens of the prompt.
        completion_ids: actions and observations in order.
        policy_mask: 1 for each completion token that the policy chose, 0 for observations.
        logprobs: log-probability of each chosen token at the sampling temperature, in nats; 0
            for observations.
        turns: the same as text.
        messages: message of the server in each turn; None for a turn of tokens, empty for a turn
            whose text the prompt has.
        end: reason of the end; ``"cut in thought"`` if the policy still thought at its limit of
            tokens, ``"failed"`` if sampler or tool broke, which is no evidence about the policy.
        answer: the final answer; None if there is none.
        error: error of the sampler or tool; empty if there was none.
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
        """Return all tokens so far, which the policy continues."""
        return self.prompt_ids + self.completion_ids

    @property
    def tool_calls(self) -> int:
        """Return the number of actions with an observation after them."""
        return sum(bool(turn.observation) for turn in self.turns)

    def add_action(self, action: Action, text: str) -> None:
        """Append an action of the policy; ``text`` is the part of it that counts."""
        self._append(action.ids, action.logprobs, by_policy=True)
        self.turns.append(Turn(text))
        self.messages.append(action.message)

    def show(self, ids: Sequence[int], text: str) -> None:
        """Append an observation after the last action, or before the first."""
        self._append(ids, None, by_policy=False)
        if not self.turns:
            self.turns.append(Turn(""))
            self.messages.append(None)
        self.turns[-1] = replace(self.turns[-1], observation=text)

    def fail(self, broken: Broken) -> None:
        """End the episode because a sampler or a tool failed."""
        self.end, self.error = "failed", broken.error

    def _append(
        self, ids: Sequence[int], logprobs: Sequence[float] | None, *, by_policy: bool
    ) -> None:
        self.completion_ids += ids
        self.policy_mask += [int(by_policy)] * len(ids)
        self.logprobs += [0.0] * len(ids) if logprobs is None else logprobs


def split(ids: Sequence[int], mask: Sequence[int | bool]) -> list[tuple[list[int], list[int]]]:
    """Return pairs of an action's tokens and those of the observation after it, oldest first.

    The first action is empty if an observation comes first, the last observation is empty if an
    action comes last.

    Args:
        ids: tokens that followed the prompt, without padding.
        mask: of the same length; true if the policy chose the token.

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
    """Return ``response_tokens``, of the policy's own tokens, and ``tool_calls``, of observations.

    Args:
        mask: mask of the tokens after the prompt; true if the policy chose the token.

    >>> token_metrics([1, 1, 0, 0, 1, 0])
    {'response_tokens': 3.0, 'tool_calls': 2.0}
    """
    chosen = [bool(flag) for flag in mask]
    observations = sum(not policy for policy, _ in groupby(chosen))
    return {"response_tokens": float(sum(chosen)), "tool_calls": float(observations)}


def turns(ids: Sequence[int], mask: Sequence[int | bool], decode: Decode) -> tuple[Turn, ...]:
    """Return the actions and the observations after them, as text; see :func:`split`.

    Args:
        ids: tokens that followed the prompt, without padding.
        mask: mask of the same length.
        decode: function that decodes spans of tokens.
    """
    pairs = split(ids, mask)
    texts = iter(decode([span for pair in pairs for span in pair if span]))
    return tuple(
        Turn(next(texts) if action else "", next(texts) if observation else "")
        for action, observation in pairs
    )
