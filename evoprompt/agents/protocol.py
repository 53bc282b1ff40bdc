"""How text becomes an action, and the result of a tool becomes text.

Everything here reads single actions: what stands in a prompt or an observation never counts.
Malformed actions are an outcome, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol as Interface

from pydantic import JsonValue

from evoprompt.agents.tokenizer import Tokenizer
from evoprompt.errors import InputError


@dataclass(frozen=True, slots=True)
class Call:
    """Wants the result of a tool.

    Attributes:
        name: of the tool.
        arguments: as the policy wrote them; whether they fit is for the tool to say.
    """

    name: str
    arguments: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Move:
    """What an action does; with neither calls nor an answer it is malformed.

    Attributes:
        text: what counts of what was said.
        calls: the tools it calls.
        answer: its final answer.
    """

    text: str
    calls: tuple[Call, ...] = ()
    answer: str | None = None


class Protocol(Interface):
    """How a policy calls tools, is shown results and answers."""

    @property
    def stop(self) -> tuple[str, ...]:
        """Texts that end an action."""
        ...

    @property
    def skips_special_tokens(self) -> bool:
        """Whether special tokens are left out of an action before it is read."""
        ...

    def require(self, tokenizer: Tokenizer) -> None:
        """Nothing, unless a tokenizer cannot be used.

        Raises:
            InputError: it breaks what the protocol writes.
        """
        ...

    def read(self, said: str) -> Move:
        """What an action does."""
        ...

    def frame(self, results: int, *, ended: bool) -> Sequence[str]:
        """The texts before, between and after so many results, one more than there are results.

        Args:
            results: number of calls answered, at least 1.
            ended: whether the action ended with the end of the text.
        """
        ...


@dataclass(frozen=True)
class TagProtocol:
    r"""One tool, called by tags in plain text, as in arXiv 2503.09516.

    An action that ends with ``<call> ... </call>`` is followed by the result between the texts
    ``opening`` and ``closing``; any other ends the episode.

    Attributes:
        call: tag of a call, and name of the tool.
        argument: name of the tool's one argument, which is what stands between the tags.
        answer: tag of the final answer.
        opening: text before a result.
        closing: text after it.
        ends_at_answer: whether an action ends where an answer is closed, too.

    >>> tags = TagProtocol("look", "at", "say", opening="\n<seen>\n", closing="\n</seen>\n")
    >>> tags.read("Hm. <look> left </look><look>").calls
    (Call(name='look', arguments={'at': 'left'}),)
    >>> tags.read("<say> a door </say>").answer
    'a door'
    """

    call: str
    argument: str
    answer: str
    opening: str
    closing: str
    ends_at_answer: bool = True

    @property
    def stop(self) -> tuple[str, ...]:
        """The closing tags."""
        call, answer = f"</{self.call}>", f"</{self.answer}>"
        return (call, answer) if self.ends_at_answer else (call,)

    @property
    def skips_special_tokens(self) -> bool:
        """Yes: tags are plain text."""
        return True

    def require(self, tokenizer: Tokenizer) -> None:
        """Nothing, unless a tag does not survive ``tokenizer``.

        Raises:
            InputError: it comes back changed, or not at all because it is a special token.
        """
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

    def read(self, said: str) -> Move:
        """What an action does; text after the first closing tag does not count.

        Samplers stop at a token, and the token that closes a tag may hold the beginning of more.
        """
        ends = [at + len(tag) for tag in self.stop if (at := said.find(tag)) >= 0]
        text = said[: min(ends)] if ends else said
        given = self.find_call(text)
        if given is not None:
            return Move(text, (Call(self.call, {self.argument: given}),))
        return Move(text, answer=self.find_answer(text))

    def frame(self, results: int, *, ended: bool) -> Sequence[str]:
        """The texts around the one result."""
        return self.opening, self.closing

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


class AnswerProtocol:
    """No tools: whatever the policy says is its answer.

    >>> AnswerProtocol().read(" 42 ").answer
    '42'
    """

    stop: tuple[str, ...] = ()
    skips_special_tokens = True

    def require(self, tokenizer: Tokenizer) -> None:
        """Nothing: any tokenizer will do."""

    def read(self, said: str) -> Move:
        """The answer; silence is malformed."""
        return Move(said, answer=said.strip() or None)

    def frame(self, results: int, *, ended: bool) -> Sequence[str]:
        """Never needed, as there is nothing to call."""
        return [""] * (results + 1)
