"""Protocol of the tool calls in a model's own chat template, with detection of their form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from evoprompt.agents.callforms import KEY, NAMES, VALUE, CallForm, form_of
from evoprompt.agents.protocol import Move, Protocol, ToolCall
from evoprompt.agents.thoughts import Marks, marks_of
from evoprompt.agents.tokenizer import ChatTokenizer, Tokenizer, rendered
from evoprompt.support.errors import InputError

_QUESTION = "asked-4b1f"
_RESULT = "result-4b1f-{}."
_ODD_RESULT = " \"a\\b\"\n'<c>' & \u00fc {d} "
_REMEDY = "choose one, or TagProtocol"


class ToolCallProtocol(Protocol):
    """Protocol of the tool calls of the model's own chat template.

    The form of a call, the text around a result, and the marks of a thought are detected. An action
    without a call is the final answer.

    Args:
        tokenizer: tokenizer of the policy.

    Raises:
        InputError: the tokenizer has no chat template, or the template shows no tool calls or
            results, or shows them in an unreadable form.
    """

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        if tokenizer.chat_template is None:
            raise InputError(
                "tool calls were requested, but the tokenizer has no chat template, so that the "
                "model has no format for them; required: a model that was trained to call tools; "
                f"{_REMEDY}"
            )
        self._tokenizer = tokenizer
        self._marks = marks_of(tokenizer)
        self._around = lru_cache(1_000)(self._frame)
        self._form, self._end = self._detect_form()
        frame = self._around(NAMES[:1])
        specials = _special_tokens(tokenizer) | {self._end, str(tokenizer.eos_token)}
        after_arguments = self._tail(self._single_call()).partition(self._end)[0]
        self._ends = tuple(
            special for special in sorted(specials) if special and special not in after_arguments
        )
        self._shows_as_is = self._render_result(_ODD_RESULT, frame) == _ODD_RESULT
        call = self._single_call()
        if self.read(call).calls != (ToolCall(NAMES[0], {KEY: VALUE}),):
            raise _unreadable(call)

    def require(self, tokenizer: Tokenizer) -> None:
        """Require that ``tokenizer`` keeps the mark of a call.

        Raises:
            InputError: it does not.
        """
        opening = self._form.opening
        ids = tokenizer.encode(opening, add_special_tokens=False)
        back = str(tokenizer.decode(ids, skip_special_tokens=False))
        if opening not in back:
            raise InputError(
                f"the policy's tokenizer turns the mark of a call {opening!r} into "
                f"{back!r}; required: the tokenizer that the chat template was made for"
            )

    def read(self, action: str, marks: Marks | None = None, *, is_in_thought: bool = False) -> Move:
        """Return the effect of an action, after removing its thought in the template's marks."""
        return super().read(action, marks or self._marks, is_in_thought=is_in_thought)

    def act(self, action: str) -> Move:
        """Return the effect of an action.

        An unreadable call has a fault, and so has an action with more calls than the template
        permits in one turn: the policy reads the fault, and may call again.
        """
        text = action.rstrip()
        while ends := [end for end in self._ends if text.endswith(end)]:
            text = text.removesuffix(max(ends, key=len)).rstrip()
        text = action[: len(text)] if len(text) < len(action.rstrip()) else action
        calls = self._form.calls(text)
        if calls is None:
            return Move(text, answer=self._marks.answer(text).strip() or None)
        if not self._frames(calls):
            fault = f"the action makes {len(calls)} calls; required: one at a time"
            calls = [ToolCall(calls[0].name, {}, fault)]
        return Move(text, tuple(calls) if self._frames(calls) else ())

    def frame(self, calls: Sequence[ToolCall], action: str) -> Sequence[str]:
        """Return the texts around the results, up to the next action."""
        first, *further = self._around(tuple(call.name for call in calls))
        is_ended = action.rstrip().endswith(self._ends)
        return first if is_ended else f"{self._end}{first}", *further

    def frame_result(self, result: str) -> str:
        """Return a result as the template writes it, possibly as JSON."""
        return result if self._shows_as_is else self._render_result(result, self._around(NAMES[:1]))

    def example(self, schema: Mapping[str, Any]) -> str:
        """Return a call of the tool of ``schema`` in the template's form, ``...`` as arguments."""
        function = schema.get("function", schema)
        names = function.get("parameters", {}).get("properties", {})
        call = {"name": function["name"], "arguments": dict.fromkeys(names, "...")}
        return self._of([call], []).partition(self._end)[0].strip()

    def _render_result(self, result: str, frame: Sequence[str]) -> str:
        tail = self._tail(self._written(NAMES[:1], [result])).partition(self._end)[2]
        return tail.removeprefix(frame[0]).removesuffix(frame[1])

    def _frames(self, calls: Sequence[ToolCall]) -> bool:
        """Return whether the template shows so many results; some permit one call a turn."""
        try:
            self._around(tuple(call.name for call in calls))
        except InputError:
            return False
        return True

    def _detect_form(self) -> tuple[CallForm, str]:
        """Return the form of a call, and the mark that ends an action with a call."""
        call = self._single_call()
        try:
            both = self._written(NAMES, [])
        except InputError:
            both = ""
        form = form_of(call, both)
        tail = self._tail(self._written(NAMES[:1], [_RESULT.format(0)])).partition("result-4b1f")[0]
        end = str(self._tokenizer.eos_token)
        if end not in tail:
            end = _end_of(tail, self._tail(call), both.partition(VALUE)[2])
        if form is None or not end:
            raise _unreadable(call)
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

    def _single_call(self) -> str:
        return self._written(NAMES[:1], [])

    @staticmethod
    def _tail(text: str) -> str:
        """Return the text after the arguments of the last call."""
        return text.rpartition(VALUE)[2]

    def _written(self, names: Sequence[str], results: Sequence[str]) -> str:
        """Return calls with these names, and their results, in the template's form."""
        keys = [KEY, *[f"{KEY}_{number}" for number in range(1, len(names))]]
        keys[-1] = KEY
        pairs = zip(names, keys, strict=True)
        return self._of([{"name": name, "arguments": {key: VALUE}} for name, key in pairs], results)

    def _of(self, functions: Sequence[dict[str, Any]], results: Sequence[str]) -> str:
        """Return calls and their results after a question, in the template's form."""
        ids = [f"call{number:05d}" for number in range(len(functions))]
        result_messages = [
            {"role": "tool", "name": function["name"], "tool_call_id": id_, "content": result}
            for function, id_, result in zip(functions, ids, results, strict=False)
        ]
        question = {"role": "user", "content": _QUESTION}
        text = self._rendered(
            [question, self._calling(ids, functions), *result_messages], bool(results)
        )
        prompt = self._rendered([question], True)
        return (
            text.removeprefix(prompt) if text.startswith(prompt) else text.rpartition(_QUESTION)[2]
        )

    @staticmethod
    def _calling(ids: Sequence[str], functions: Sequence[dict[str, Any]]) -> dict[str, Any]:
        calls = [
            {"type": "function", "id": id_, "function": function}
            for id_, function in zip(ids, functions, strict=True)
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
                    f"model that was trained to call tools; {_REMEDY}"
                ) from error
        return rendered(self._tokenizer, _as_text(messages), tools, going_on=going_on)


def _unreadable(call: str) -> InputError:
    return InputError(
        "the chat template does not write a tool call in a form that can be read back: as a JSON "
        f"object, or as name and arguments; a call reads {call!r}; required: a model whose "
        f"template does; {_REMEDY}"
    )


def _as_text(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with arguments as JSON texts, which a few templates require."""
    return [
        {**message, "tool_calls": [_with_text(call) for call in message["tool_calls"]]}
        if "tool_calls" in message
        else message
        for message in messages
    ]


def _with_text(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.dumps(function["arguments"])}}


def _end_of(before_result: str, after_call: str, between: str) -> str:
    """Return the mark that ends an action if the end of the text does not; empty if none does.

    Args:
        before_result: text of the template between the arguments of a call and its result.
        after_call: text of the template after the arguments without a result.
        between: text between the arguments and the next call; empty without several calls.
    """
    marks = list(re.finditer(r"<[^<>]+>", before_result))
    end_marks = [mark for mark in marks if not between.startswith(before_result[: mark.end()])]
    spoken = [
        mark.group() for mark in end_marks if after_call.startswith(before_result[: mark.end()])
    ]
    return [*spoken[-1:], *(mark.group() for mark in end_marks), ""][0]


def _special_tokens(tokenizer: ChatTokenizer) -> set[str]:
    """Return the texts with which a sampler may end an action: the special tokens."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    named = getattr(tokenizer, "all_special_tokens", ())
    return {*named, *(str(token.content) for token in added.values() if token.special)}
