"""The tool calls of a model's own chat template, whose form is read off the template."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from evoprompt.agents.protocol import Call, Move
from evoprompt.agents.tokenizer import ChatTokenizer, Tokenizer
from evoprompt.errors import InputError

_ASKED, _NAME, _KEY, _VALUE = "asked-4b1f", "name_4b1f", "key_4b1f", "value-4b1f"
_RESULT = "result-4b1f-{}."


class ToolCallProtocol:
    """The tool calls of the model's own chat template.

    What is read off is what stands before the JSON object of a call, and what around a result. An
    action without a call is the final answer.

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
        self._known: dict[int, tuple[str, ...]] = {}
        self._opening, self._arguments = self._learn()
        self.frame(1, ended=True)

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
        """What an action does.

        A call that is no JSON object makes it malformed, and so do more calls than the template
        takes at a time.
        """
        text = said.removesuffix(self._end)
        if not (text.lstrip().startswith("{") if not self._opening else self._opening in text):
            return Move(text, answer=text.strip() or None)
        found = text.split(self._opening)[1:] if self._opening else [text]
        calls = [call for part in found for call in self._calls(part)]
        read = tuple(call for call in calls if call)
        return Move(text, read if len(read) == len(calls) and self._frames(len(calls)) else ())

    def frame(self, results: int, *, ended: bool) -> Sequence[str]:
        """The texts around so many results, up to where the policy goes on."""
        if results not in self._known:
            self._known[results] = self._around(results)
        first, *others = self._known[results]
        return first if ended else f"{self._end}{first}", *others

    def _frames(self, results: int) -> bool:
        """Whether the template shows so many results; some take one call at a time."""
        try:
            self.frame(results, ended=True)
        except InputError:
            return False
        return True

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
