"""The tool calls of a model's own chat template, whose form is read off the template."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from evoprompt.agents.callforms import KEY, NAMES, VALUE, CallForm, form_of
from evoprompt.agents.protocol import Call, Move, Protocol
from evoprompt.agents.thoughts import Marks, marks_of
from evoprompt.agents.tokenizer import ChatTokenizer, Tokenizer, rendered
from evoprompt.support.errors import InputError

_ASKED = "asked-4b1f"
_RESULT = "result-4b1f-{}."
_ODD_RESULT = " \"a\\b\"\n'<c>' & \u00fc {d} "
_REMEDY = "choose one, or TagProtocol"


class ToolCallProtocol(Protocol):
    """The tool calls of the model's own chat template.

    What is read off is the form of a call, what stands around a result, and how a thought is
    marked. An action without a call is the final answer.

    Args:
        tokenizer: of the policy.

    Raises:
        InputError: the tokenizer has no chat template, or the template shows no tool calls or
            results, or in a form that cannot be read back.
    """

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        if tokenizer.chat_template is None:
            raise InputError(
                "tool calls were asked for, but the tokenizer has no chat template, so that the "
                "model knows no form for them; required: a model that was taught to call tools; "
                f"{_REMEDY}"
            )
        self._tokenizer = tokenizer
        self._marks = marks_of(tokenizer)
        self._around = lru_cache(1_000)(self._frame)
        self._form, self._end = self._learn()
        found = self._around(NAMES[:1])
        specials = _special_tokens(tokenizer) | {self._end, str(tokenizer.eos_token)}
        written = self._tail(self._one()).partition(self._end)[0]
        self._ends = tuple(
            special for special in sorted(specials) if special and special not in written
        )
        self._shows_as_is = self._shown(_ODD_RESULT, found) == _ODD_RESULT
        one = self._one()
        if self.read(one).calls != (Call(NAMES[0], {KEY: VALUE}),):
            raise _unreadable(one)

    def require(self, tokenizer: Tokenizer) -> None:
        """Raises InputError if the mark of a call does not survive ``tokenizer``."""
        opening = self._form.opening
        ids = tokenizer.encode(opening, add_special_tokens=False)
        back = str(tokenizer.decode(ids, skip_special_tokens=False))
        if opening not in back:
            raise InputError(
                f"the policy's tokenizer turns the mark of a call {opening!r} into "
                f"{back!r}; required: the tokenizer that the chat template was made for"
            )

    def read(self, said: str, marks: Marks | None = None, *, opened: bool = False) -> Move:
        """What an action does, its thought left aside, which the template marks in its own way."""
        return super().read(said, marks or self._marks, opened=opened)

    def act(self, said: str) -> Move:
        """What an action does.

        A call that cannot be read has a fault, and so has an action of more calls than the
        template takes at a time: the policy is told, and may make it again.
        """
        text = said.rstrip()
        while ends := [end for end in self._ends if text.endswith(end)]:
            text = text.removesuffix(max(ends, key=len)).rstrip()
        text = said[: len(text)] if len(text) < len(said.rstrip()) else said
        calls = self._form.calls(text)
        if calls is None:
            return Move(text, answer=self._marks.answer(text).strip() or None)
        if not self._frames(calls):
            fault = f"the action makes {len(calls)} calls; required: one at a time"
            calls = [Call(calls[0].name, {}, fault)]
        return Move(text, tuple(calls) if self._frames(calls) else ())

    def frame(self, calls: Sequence[Call], said: str) -> Sequence[str]:
        """The texts around the results, up to where the policy goes on."""
        first, *others = self._around(tuple(call.name for call in calls))
        ended = said.rstrip().endswith(self._ends)
        return first if ended else f"{self._end}{first}", *others

    def shown(self, result: str) -> str:
        """A result as the template writes it, which may be as JSON."""
        return result if self._shows_as_is else self._shown(result, self._around(NAMES[:1]))

    def example(self, schema: Mapping[str, Any]) -> str:
        """A call of the tool of ``schema`` as the template writes it, ``...`` for its arguments."""
        function = schema.get("function", schema)
        names = function.get("parameters", {}).get("properties", {})
        call = {"name": function["name"], "arguments": dict.fromkeys(names, "...")}
        return self._of([call], []).partition(self._end)[0].strip()

    def _shown(self, result: str, frame: Sequence[str]) -> str:
        tail = self._tail(self._written(NAMES[:1], [result])).partition(self._end)[2]
        return tail.removeprefix(frame[0]).removesuffix(frame[1])

    def _frames(self, calls: Sequence[Call]) -> bool:
        """Whether the template shows the results of so many calls; some take one at a time."""
        try:
            self._around(tuple(call.name for call in calls))
        except InputError:
            return False
        return True

    def _learn(self) -> tuple[CallForm, str]:
        """The form of a call, and what ends an action that makes one."""
        one = self._one()
        try:
            both = self._written(NAMES, [])
        except InputError:
            both = ""
        form = form_of(one, both)
        tail = self._tail(self._written(NAMES[:1], [_RESULT.format(0)])).partition("result-4b1f")[0]
        end = str(self._tokenizer.eos_token)
        if end not in tail:
            end = _end_of(tail, self._tail(one), both.partition(VALUE)[2])
        if form is None or not end:
            raise _unreadable(one)
        return form, end

    def _frame(self, names: tuple[str, ...]) -> tuple[str, ...]:
        results = [_RESULT.format(number) for number in range(len(names))]
        tail = self._tail(text := self._written(names, results))
        pieces = re.split("|".join(map(re.escape, results)), tail)
        if len(pieces) != len(names) + 1 or self._end not in pieces[0]:
            raise InputError(
                f"the chat template shows the results of {len(names)} calls as {text!r}; required: "
                f"every result after the end {self._end!r} of the action; choose another model, "
                "or TagProtocol"
            )
        return pieces[0].partition(self._end)[2], *pieces[1:]

    def _one(self) -> str:
        return self._written(NAMES[:1], [])

    @staticmethod
    def _tail(text: str) -> str:
        """What follows the arguments of the last call."""
        return text.rpartition(VALUE)[2]

    def _written(self, names: Sequence[str], results: Sequence[str]) -> str:
        """Calls with the names, and their results."""
        keys = [KEY, *[f"{KEY}_{number}" for number in range(1, len(names))]]
        keys[-1] = KEY
        pairs = zip(names, keys, strict=True)
        return self._of([{"name": name, "arguments": {key: VALUE}} for name, key in pairs], results)

    def _of(self, functions: Sequence[dict[str, Any]], results: Sequence[str]) -> str:
        """Calls and their results after a question, as the template writes them."""
        ids = [f"call{number:05d}" for number in range(len(functions))]
        shown = [
            {"role": "tool", "name": function["name"], "tool_call_id": one, "content": result}
            for function, one, result in zip(functions, ids, results, strict=False)
        ]
        asked = {"role": "user", "content": _ASKED}
        text = self._rendered([asked, self._calling(ids, functions), *shown], bool(results))
        prompt = self._rendered([asked], True)
        return text.removeprefix(prompt) if text.startswith(prompt) else text.rpartition(_ASKED)[2]

    @staticmethod
    def _calling(ids: Sequence[str], functions: Sequence[dict[str, Any]]) -> dict[str, Any]:
        calls = [
            {"type": "function", "id": one, "function": function}
            for one, function in zip(ids, functions, strict=True)
        ]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    def _rendered(self, messages: list[dict[str, Any]], going_on: bool) -> str:
        parameters = {"type": "object", "properties": {KEY: {"type": "string"}}}
        function = {"name": NAMES[0], "description": "A tool.", "parameters": parameters}
        tools = [{"type": "function", "function": function}]
        try:
            return rendered(self._tokenizer, messages, tools, going_on=going_on)
        except InputError as error:
            if not isinstance(error.__cause__, TypeError):
                raise InputError(
                    f"the chat template renders no tool calls ({error.__cause__}); required: a "
                    f"model that was taught to call tools; {_REMEDY}"
                ) from error
        return rendered(self._tokenizer, _as_text(messages), tools, going_on=going_on)


def _unreadable(call: str) -> InputError:
    return InputError(
        "the chat template does not write a tool call in a form that can be read back: as a JSON "
        f"object, or as name and arguments; a call reads {call!r}; required: a model whose "
        f"template does; {_REMEDY}"
    )


def _as_text(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with arguments as JSON texts, as a few templates want them."""
    return [
        {**message, "tool_calls": [_with_text(call) for call in message["tool_calls"]]}
        if "tool_calls" in message
        else message
        for message in messages
    ]


def _with_text(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.dumps(function["arguments"])}}


def _end_of(shown: str, written: str, between: str) -> str:
    """What ends an action, where the tokenizer's own end of a text does not; empty if nothing.

    Args:
        shown: what a template writes between the arguments of a call and its result.
        written: what it writes after them without a result.
        between: what it writes between them and the next call; empty if it takes one at a time.
    """
    marks = list(re.finditer(r"<[^<>]+>", shown))
    own = [mark for mark in marks if not between.startswith(shown[: mark.end()])]
    spoken = [mark.group() for mark in own if written.startswith(shown[: mark.end()])]
    return [*spoken[-1:], *(mark.group() for mark in own), ""][0]


def _special_tokens(tokenizer: ChatTokenizer) -> set[str]:
    """Texts that a sampler may end an action with: the special tokens of the tokenizer."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    named = getattr(tokenizer, "all_special_tokens", ())
    return {*named, *(str(one.content) for one in added.values() if one.special)}
