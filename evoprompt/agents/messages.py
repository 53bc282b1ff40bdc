"""Texts, thoughts and tool calls of a model's message, whole or in parts.

Servers write the same content in many ways. The policies of :mod:`evoprompt.agents.endpoint` and
the gateway read messages with these functions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import JsonValue

from evoprompt.agents.conversation import written_action
from evoprompt.support.text import join_halves

TEXTS = ("text", "output_text")
"""Kinds of parts for the user."""

THOUGHTS = (
    *("text", "thinking", "reasoning", "reasoning_text"),
    *("reasoning.text", "reasoning.summary", "summary_text"),
)
"""Kinds of parts within a thought."""

_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
_TEXT_FIELDS = ("text", "content", "value", "parts", "summary")


def read_text(content: JsonValue, kinds: Sequence[str] = ("text",)) -> str:
    """Return the text of a content; in a list of parts, only the parts of some kinds count.

    >>> read_text([{"type": "text", "text": "4"}, {"type": "image"}])
    '4'
    """
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    objects = [{"text": part} if isinstance(part, str) else part for part in parts]
    texts: list[str] = []
    for part in objects:
        if not isinstance(part, dict) or part.get("type", "text") not in kinds:
            continue
        names = (str(part.get("type")), *_TEXT_FIELDS)
        text = next((part[name] for name in names if part.get(name)), None)
        texts.append(read_text(text, (*kinds, "text")) if text else "")
    return "".join(texts)


def read_content(message: Mapping[str, Any]) -> str:
    """Return the text of a message for the user, its refusal included."""
    texts = read_text(message.get("content"), TEXTS), read_text(message.get("refusal"))
    return "\n".join(filter(None, texts))


def read_thought(message: Mapping[str, Any]) -> str:
    """Return the separate thought of a message, under any of its field names."""
    for name in _THOUGHT_FIELDS:
        if message.get(name) and (thought := read_text(message[name], THOUGHTS)):
            return thought
    content = message.get("content")
    return "" if isinstance(content, str) else read_text(content, THOUGHTS[1:])


def read_calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a message, each an object with ``function``.

    Some servers number them in an object, write the old ``function_call``, or have custom tools,
    whose input is a text.
    """
    field = message.get("tool_calls")
    items = [*field.values()] if isinstance(field, dict) else field
    calls = [call for call in items if isinstance(call, dict)] if isinstance(items, list) else []
    old_call = message.get("function_call")
    if old_call and not calls:
        calls = [{"function": old_call}]
    tool_calls = []
    for call in calls:
        function, custom = call.get("function"), call.get("custom")
        if not isinstance(function, dict) and isinstance(custom, dict):
            function = {"name": custom.get("name"), "arguments": custom.get("input")}
        tool_calls.append({**call, "function": function if isinstance(function, dict) else {}})
    return tool_calls


class _CallParts:
    """A tool call that arrives in parts."""

    def __init__(self, name: str, identity: object) -> None:
        self.name = name
        self.identity = identity
        self.arguments: list[str] = []

    @property
    def written_arguments(self) -> str:
        return "".join(self.arguments)

    @property
    def is_whole(self) -> bool:
        """Return whether the arguments are a complete JSON value."""
        with suppress(ValueError, RecursionError):
            json.loads(self.written_arguments)
            return True
        return False


class MessageReader:
    """Reader of one message of a model, from all of its parts.

    Attributes:
        texts: parts of the text for the user.
        thoughts: parts of the thought.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self._calls: list[_CallParts] = []
        self._places: dict[object, _CallParts] = {}

    @property
    def has_content(self) -> bool:
        """Return whether a text or a call has arrived."""
        return bool(self._calls) or any(self.texts)

    @property
    def has_thought(self) -> bool:
        """Return whether a thought has arrived."""
        return any(self.thoughts)

    @property
    def action(self) -> str:
        """Return the message as the text of an episode."""
        calls = [
            (join_halves(call.name), join_halves(call.written_arguments)) for call in self._calls
        ]
        text, thought = join_halves("".join(self.texts)), join_halves("".join(self.thoughts))
        return written_action(text, calls, thought)

    def add(self, message: Mapping[str, Any], *, is_whole: bool = False) -> None:
        """Read a message, or the next part of one, of ``/chat/completions``."""
        content = message.get("content")
        if len(message) == 1 and isinstance(content, str):  # nearly every part of a stream
            self.texts.append(content)
            return
        self.texts.append(read_content(message))
        self.thoughts.append(read_thought(message))
        for position, call in enumerate(read_calls(message)):
            call_place = None if is_whole else call.get("index", position)
            function = call["function"]
            self.add_call(
                call_place, function.get("name"), function.get("arguments"), call.get("id")
            )

    def add_call(
        self, index: object, name: object, arguments: object, identity: object = None
    ) -> None:
        """Read a call, or the next part of one.

        Args:
            index: of the call among the calls of the message; None for a whole call.
            name: of the tool; later parts have no name, or repeat it.
            arguments: the next part of them as a text, or an object.
            identity: id of the call; a different id begins a new call at any place.
        """
        name = name if isinstance(name, str) else ""
        call = None if index is None else self._places.get(str(index))
        is_other = call is not None and identity and call.identity not in (None, identity)
        is_again = call is not None and name and not identity and call.is_whole
        if call is None or is_other or is_again:
            call = _CallParts(name, identity)
            self._calls.append(call)
            self._places[str(index)] = call
        elif name and call.name != name:
            call.name += name
        if arguments not in (None, ""):  # some servers send an object
            part = arguments if isinstance(arguments, str) else json.dumps(arguments)
            call.arguments.append(part)

    def clear(self) -> None:
        """Remove all parts before the whole message is read."""
        self.__init__()  # type: ignore[misc]
