"""Protocols that convert text into actions, and results of tools into text.

A protocol reads single actions: text in a prompt or an observation never counts. A malformed action
is an outcome, never an exception.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from pydantic import JsonValue

from evoprompt.agents.thoughts import Marks
from evoprompt.agents.tokenizer import Tokenizer
from evoprompt.support.errors import InputError


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Request for the result of a tool.

    Attributes:
        name: name of the tool.
        arguments: arguments as the policy wrote them; the tool checks them.
        fault: reason why no tool can be called, for the policy to read; empty if there is none.
    """

    name: str
    arguments: Mapping[str, JsonValue]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """Effect of an action; an action with neither calls nor an answer is malformed.

    Attributes:
        text: the text that counts; thoughts are marked in it, see ``evoprompt.log.turns``.
        calls: the tools it calls.
        answer: its final answer.
        cut: whether it ended within a thought, and so has no further text.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    cut: bool = False


class Protocol(ABC):
    """Form in which a policy calls tools, reads results and answers.

    Attributes:
        stop: texts that end an action.
        skips_special_tokens: whether special tokens are left out of an action before it is read.
    """

    stop: tuple[str, ...] = ()
    skips_special_tokens: ClassVar[bool] = False

    @abstractmethod
    def act(self, action: str) -> Move:
        """Return the effect of an action; ``action`` does not contain the thought."""

    @abstractmethod
    def require(self, tokenizer: Tokenizer) -> None:
        """Require that ``tokenizer`` keeps the marks of the protocol.

        Raises:
            InputError: it changes them.
        """

    @abstractmethod
    def frame(self, calls: Sequence[ToolCall], action: str) -> Sequence[str]:
        """Return the texts before, between and after the results: one more than calls.

        Args:
            calls: calls of one action, at least one.
            action: the action, special tokens included.
        """

    def frame_result(self, result: str) -> str:
        """Return a result in the form that it has within its frame."""
        return result

    def read(self, action: str, marks: Marks | None = None, *, is_in_thought: bool = False) -> Move:
        """Return the effect of an action, after removing its thought.

        Args:
            action: the action.
            marks: marks of thoughts, by default the usual ones.
            is_in_thought: whether a thought began before the action.
        """
        parted = (marks or Marks()).part(action, is_in_thought=is_in_thought)
        if parted.cut:
            return Move(parted.text, cut=True)
        move = self.act(parted.remainder)
        return replace(move, text=replace(parted, remainder=move.text).text)


@dataclass(frozen=True)
class TagProtocol(Protocol):
    r"""Protocol with a single tool, called by tags in plain text, as in arXiv 2503.09516.

    An action that ends with ``<call> ... </call>`` is followed by the result between the texts
    ``opening`` and ``closing``; an action with an answer ends the episode.

    Attributes:
        call: tag of a call, and name of the tool.
        argument: name of the tool's only argument; the text between the tags is its value.
        answer: tag of the final answer.
        opening: text before a result.
        closing: text after a result.
        ends_at_answer: whether an action also ends at the closing tag of an answer.
        retry: message to the policy after an action with neither, which counts as a call; empty
            if such an action ends the episode.

    >>> tags = TagProtocol("look", "at", "say", opening="\n<seen>\n", closing="\n</seen>\n")
    >>> tags.read("Hm. <look> left </look><look>").calls
    (ToolCall(name='look', arguments={'at': 'left'}, fault=''),)
    >>> tags.read("<say> a door </say>").answer
    'a door'
    """

    call: str
    argument: str
    answer: str
    opening: str
    closing: str
    ends_at_answer: bool = True
    retry: str = ""

    skips_special_tokens: ClassVar[bool] = True  # tags are plain text

    @property
    def stop(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the closing tags."""
        call, answer = f"</{self.call}>", f"</{self.answer}>"
        return (call, answer) if self.ends_at_answer else (call,)

    def require(self, tokenizer: Tokenizer) -> None:
        """Require that tags come back unchanged.

        Raises:
            InputError: a tag comes back changed, or not at all because it is a special token.
        """
        for name in (self.call, self.answer):
            text = f"<{name}> x </{name}>"
            ids = tokenizer.encode(text, add_special_tokens=False)
            back = str(tokenizer.decode(ids, skip_special_tokens=True))
            if f"<{name}>" not in back or f"</{name}>" not in back:
                raise InputError(
                    f"the policy's tokenizer turns {text!r} into {back!r}, so that no action "
                    "could be read; required: tags that come back as they are; choose another "
                    "protocol, or add the tags to the tokenizer as ordinary tokens"
                )

    def act(self, action: str) -> Move:
        """Return the effect of an action; text after the first closing tag does not count.

        Samplers stop at a token, and the token that closes a tag may contain further text.
        """
        ends = [at + len(tag) for tag in self.stop if (at := action.find(tag)) >= 0]
        text = action[: min(ends)] if ends else action
        argument = self.find_call(text)
        if argument is not None:
            return Move(text, (ToolCall(self.call, {self.argument: argument}),))
        answer = self.find_answer(text)
        if answer is None and self.retry:
            return Move(text, (ToolCall(self.call, {}, fault=self.retry),))
        return Move(text, answer=answer)

    def frame(self, calls: Sequence[ToolCall], action: str) -> Sequence[str]:
        """Return the texts around the result; the text of a fault has no result tags."""
        (call,) = calls
        return ("\n\n", "\n\n") if call.fault else (self.opening, self.closing)

    def find_call(self, action: str) -> str | None:
        """Return the argument of the call that ends an action, or None without a call."""
        match = self._call.search(action)
        return match.group(1).strip() if match else None

    def find_answer(self, action: str) -> str | None:
        """Return the last complete answer of an action, or None."""
        answers = self._answer.findall(action)
        return str(answers[-1]).strip() if answers else None

    @cached_property
    def _call(self) -> re.Pattern[str]:
        tag = re.escape(self.call)
        return re.compile(rf"<{tag}>((?:(?!<{tag}>).)*)</{tag}>\s*$", re.DOTALL)

    @cached_property
    def _answer(self) -> re.Pattern[str]:
        tag = re.escape(self.answer)
        return re.compile(rf"<{tag}>((?:(?!<{tag}>).)*?)</{tag}>", re.DOTALL)


class AnswerProtocol(Protocol):
    """Protocol without tools: the text of the policy is its answer.

    >>> AnswerProtocol().read(" 42 ").answer
    '42'
    """

    skips_special_tokens: ClassVar[bool] = True

    def require(self, tokenizer: Tokenizer) -> None:
        """Accept any tokenizer."""

    def act(self, action: str) -> Move:
        """Return the answer; an empty action is malformed."""
        return Move(action, answer=action.strip() or None)

    def frame(self, calls: Sequence[ToolCall], action: str) -> Sequence[str]:
        """Return empty texts; there are no calls."""
        return [""] * (len(calls) + 1)
