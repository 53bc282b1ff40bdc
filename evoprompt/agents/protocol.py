"""How text becomes an action, and the result of a tool becomes text.

Everything here reads single actions: what stands in a prompt or an observation never counts.
Malformed actions are an outcome, never an exception.
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
class Call:
    """Wants the result of a tool.

    Attributes:
        name: of the tool.
        arguments: as the policy wrote them; whether they fit is for the tool to say.
        fault: why no tool can be asked, for the policy to read; empty if one can.
    """

    name: str
    arguments: Mapping[str, JsonValue]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """What an action does; with neither calls nor an answer it is malformed.

    Attributes:
        text: the text that counts; thoughts are marked in it, see ``evoprompt.log.turns``.
        calls: the tools it calls.
        answer: its final answer.
        cut: whether it ended within a thought, so that nothing was said.
    """

    text: str
    calls: tuple[Call, ...] = ()
    answer: str | None = None
    cut: bool = False


class Protocol(ABC):
    """How a policy calls tools, is shown results and answers.

    Attributes:
        stop: texts that end an action.
        skips_special_tokens: whether special tokens are left out of an action before it is read.
    """

    stop: tuple[str, ...] = ()
    skips_special_tokens: ClassVar[bool] = False

    @abstractmethod
    def act(self, said: str) -> Move:
        """What an action does; a thought is no part of ``said``."""

    @abstractmethod
    def require(self, tokenizer: Tokenizer) -> None:
        """Raises InputError if ``tokenizer`` breaks what the protocol writes."""

    @abstractmethod
    def frame(self, calls: Sequence[Call], said: str) -> Sequence[str]:
        """The texts before, between and after the results of calls, one more than there are.

        Args:
            calls: of one action, at least one.
            said: the action, special tokens included.
        """

    def shown(self, result: str) -> str:
        """A result as it stands within its frame."""
        return result

    def read(self, said: str, marks: Marks | None = None, *, opened: bool = False) -> Move:
        """What an action does, its thought left aside.

        Args:
            said: the action.
            marks: of thoughts, by default the usual ones.
            opened: whether a thought had begun before it.
        """
        parted = (marks or Marks()).part(said, opened=opened)
        if parted.cut:
            return Move(parted.text, cut=True)
        move = self.act(parted.rest)
        return replace(move, text=replace(parted, rest=move.text).text)


@dataclass(frozen=True)
class TagProtocol(Protocol):
    r"""One tool, called by tags in plain text, as in arXiv 2503.09516.

    An action that ends with ``<call> ... </call>`` is followed by the result between the texts
    ``opening`` and ``closing``; one with an answer ends the episode.

    Attributes:
        call: tag of a call, and name of the tool.
        argument: name of the tool's one argument, which is what stands between the tags.
        answer: tag of the final answer.
        opening: text before a result.
        closing: text after it.
        ends_at_answer: whether an action ends where an answer is closed, too.
        retry: what the policy is told of an action with neither, which counts like a call; empty
            where that ends the episode.

    >>> tags = TagProtocol("look", "at", "say", opening="\n<seen>\n", closing="\n</seen>\n")
    >>> tags.read("Hm. <look> left </look><look>").calls
    (Call(name='look', arguments={'at': 'left'}, fault=''),)
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
        """The closing tags."""
        call, answer = f"</{self.call}>", f"</{self.answer}>"
        return (call, answer) if self.ends_at_answer else (call,)

    def require(self, tokenizer: Tokenizer) -> None:
        """Raises InputError if a tag comes back changed, or not at all as it is a special token."""
        for name in (self.call, self.answer):
            given = f"<{name}> x </{name}>"
            ids = tokenizer.encode(given, add_special_tokens=False)
            back = str(tokenizer.decode(ids, skip_special_tokens=True))
            if f"<{name}>" not in back or f"</{name}>" not in back:
                raise InputError(
                    f"the policy's tokenizer turns {given!r} into {back!r}, so that no action "
                    "could be read; required: tags that come back as they are; choose another "
                    "protocol, or add the tags to the tokenizer as ordinary tokens"
                )

    def act(self, said: str) -> Move:
        """What an action does; text after the first closing tag does not count.

        Samplers stop at a token, and the token that closes a tag may hold the beginning of more.
        """
        ends = [at + len(tag) for tag in self.stop if (at := said.find(tag)) >= 0]
        text = said[: min(ends)] if ends else said
        given = self.find_call(text)
        if given is not None:
            return Move(text, (Call(self.call, {self.argument: given}),))
        answer = self.find_answer(text)
        if answer is None and self.retry:
            return Move(text, (Call(self.call, {}, fault=self.retry),))
        return Move(text, answer=answer)

    def frame(self, calls: Sequence[Call], said: str) -> Sequence[str]:
        """The texts around the one result; what is told of a fault is no result."""
        (call,) = calls
        return ("\n\n", "\n\n") if call.fault else (self.opening, self.closing)

    def find_call(self, action: str) -> str | None:
        """The argument of the call that an action ends with, or None if it calls no tool."""
        match = self._call.search(action)
        return match.group(1).strip() if match else None

    def find_answer(self, action: str) -> str | None:
        """The last complete answer of an action, or None."""
        found = self._answer.findall(action)
        return str(found[-1]).strip() if found else None

    @cached_property
    def _call(self) -> re.Pattern[str]:
        tag = re.escape(self.call)
        return re.compile(rf"<{tag}>((?:(?!<{tag}>).)*)</{tag}>\s*$", re.DOTALL)

    @cached_property
    def _answer(self) -> re.Pattern[str]:
        tag = re.escape(self.answer)
        return re.compile(rf"<{tag}>((?:(?!<{tag}>).)*?)</{tag}>", re.DOTALL)


class AnswerProtocol(Protocol):
    """No tools: whatever the policy says is its answer.

    >>> AnswerProtocol().read(" 42 ").answer
    '42'
    """

    skips_special_tokens: ClassVar[bool] = True

    def require(self, tokenizer: Tokenizer) -> None:
        """Takes any tokenizer."""

    def act(self, said: str) -> Move:
        """The answer; silence is malformed."""
        return Move(said, answer=said.strip() or None)

    def frame(self, calls: Sequence[Call], said: str) -> Sequence[str]:
        """Never needed, as there is nothing to call."""
        return [""] * (len(calls) + 1)
