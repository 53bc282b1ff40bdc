"""How text becomes an action, and the result of a tool becomes text.

Everything here reads single actions: what stands in a prompt or an observation never counts.
Malformed actions are an outcome, never an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from typing import Protocol as Interface

from pydantic import JsonValue

from evoprompt.agents.tokenizer import ChatTokenizer, Tokenizer
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


_ASKED, _NAME, _KEY, _VALUE = "asked-4b1f", "name_4b1f", "key_4b1f", "value-4b1f"
_RESULT = "result-4b1f-{}."


class ToolCallProtocol:
    """The tool calls of the model's own chat template.

    Its form is read off the template: what stands before the JSON object of a call, and what
    around a result. An action without a call is the final answer.

    Args:
        tokenizer: of the policy.

    Raises:
        InputError: the tokenizer has no chat template, the template knows no tools, writes calls
            as something else than JSON objects with a name and arguments, or does not end a turn
            with the end-of-text token.
    """

    stop: tuple[str, ...] = ()
    skips_special_tokens = False

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        if tokenizer.chat_template is None:
            raise InputError(
                "tool calls were asked for, but the tokenizer has no chat template, so that the "
                "model knows no form for them; required: a model that was taught to call tools; "
                "choose one, or TagProtocol"
            )
        self._tokenizer = tokenizer
        self._end = str(tokenizer.eos_token)
        self._frames: dict[int, tuple[str, ...]] = {}
        self._opening, self._arguments = self._learn()

    def require(self, tokenizer: Tokenizer) -> None:
        """Nothing, unless the mark of a call does not survive ``tokenizer``.

        Raises:
            InputError: it comes back changed.
        """
        ids = tokenizer.encode(self._opening, add_special_tokens=False)
        back = str(tokenizer.decode(ids, skip_special_tokens=False))
        if self._opening not in back:
            raise InputError(
                f"the policy's tokenizer turns the mark of a call {self._opening!r} into "
                f"{back!r}; required: the tokenizer that the chat template was made for"
            )

    def read(self, said: str) -> Move:
        """What an action does; a call that is no JSON object makes it malformed."""
        text = said.removesuffix(self._end)
        if not (text.lstrip().startswith("{") if not self._opening else self._opening in text):
            return Move(text, answer=text.strip() or None)
        found = text.split(self._opening)[1:] if self._opening else [text]
        calls = [call for part in found for call in self._calls(part)]
        return Move(text, () if None in calls else tuple(call for call in calls if call))

    def frame(self, results: int, *, ended: bool) -> Sequence[str]:
        """The texts around so many results, up to where the policy goes on."""
        if results not in self._frames:
            self._frames[results] = self._around(results)
        first, *others = self._frames[results]
        return first if ended else f"{self._end}{first}", *others

    def _calls(self, part: str) -> list[Call | None]:
        """The calls at the beginning of ``part``; None for one that cannot be read."""
        calls: list[Call | None] = []
        while True:
            try:
                given, end = json.JSONDecoder().raw_decode(part := part.lstrip())
            except (ValueError, RecursionError):
                return [*calls, None]
            calls.append(self._call(given))
            part = part[end:].lstrip()
            if not part.startswith((",", ";")):
                return calls
            part = part[1:]

    def _call(self, given: object) -> Call | None:
        if not isinstance(given, dict) or not isinstance(given.get("name"), str):
            return None
        arguments = given.get(self._arguments, {})
        return Call(given["name"], arguments) if isinstance(arguments, dict) else None

    def _learn(self) -> tuple[str, str]:
        """What stands before the JSON object of a call, and its key for the arguments."""
        text = self._written(1)
        prompt = self._rendered([{"role": "user", "content": _ASKED}])
        start = len(prompt) if text.startswith(prompt) else text.find(_ASKED) + len(_ASKED)
        for match in re.finditer(r"\{", text[start:]):
            at = start + match.start()
            try:
                call, _ = json.JSONDecoder().raw_decode(text, at)
            except ValueError:
                continue
            keys = [key for key, value in call.items() if value == {_KEY: _VALUE}]
            if call.get("name") == _NAME and keys:
                before = re.search(r"\S*(?=\s*$)", text[start:at])
                return before.group() if before else "", keys[0]
        raise InputError(
            "the chat template does not write a tool call as a JSON object with a name and "
            f"arguments; a call with its result reads {text[start:]!r}; required: a model whose "
            "template does; choose one, or TagProtocol"
        )

    def _around(self, results: int) -> tuple[str, ...]:
        text = self._written(results)
        spoken = text.rfind(_VALUE)
        pieces = re.split("|".join(re.escape(_RESULT.format(i)) for i in range(results)), text)
        first = pieces[0][spoken:]
        if len(pieces) != results + 1 or self._end not in first:
            raise InputError(
                f"the chat template shows the results of {results} calls as {text!r}; required: "
                f"every result after the end {self._end!r} of the action; choose another model, "
                "or TagProtocol"
            )
        return first.partition(self._end)[2], *pieces[1:]

    def _written(self, results: int) -> str:
        """A conversation with so many calls and their results, as the template writes it."""
        function = {"name": _NAME, "arguments": {_KEY: _VALUE}}
        ids = [f"call{number:05d}" for number in range(results)]
        calls = [{"type": "function", "id": one, "function": function} for one in ids]
        shown = [
            {"role": "tool", "name": _NAME, "tool_call_id": one, "content": _RESULT.format(number)}
            for number, one in enumerate(ids)
        ]
        return self._rendered(
            [
                {"role": "user", "content": _ASKED},
                {"role": "assistant", "content": "", "tool_calls": calls},
                *shown,
            ]
        )

    def _rendered(self, messages: list[dict[str, Any]]) -> str:
        parameters = {"type": "object", "properties": {_KEY: {"type": "string"}}}
        function = {"name": _NAME, "description": "A tool.", "parameters": parameters}
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages,
                    [{"type": "function", "function": function}],
                    add_generation_prompt=True,
                    tokenize=False,
                )
            )
        except Exception as error:  # jinja's own, or whatever a template raises
            raise InputError(
                f"the chat template renders no tool calls ({error}); required: a model that was "
                "taught to call tools; choose one, or TagProtocol"
            ) from error
