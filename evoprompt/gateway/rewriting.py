"""Placement of a candidate's texts in a request body; all other bytes stay unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, cast

from evoprompt.hosting.prompts import Message, Render
from evoprompt.hosting.rows import text_of
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate

_DECODER = json.JSONDecoder()
_OUTPUT_TYPES = ("function_call", "custom_tool_call", "reasoning")  # of a policy, in /responses
_SPACE = re.compile(r"[ \t\n\r]*")


Protocol = Literal["chat", "responses", "messages"]


class _Part(NamedTuple):
    """A value of an object or an array, with its position in the text."""

    name: str
    value: Any
    start: int
    end: int


class Body:
    """The body of a request for a completion.

    Args:
        raw: its bytes.
        protocol: of the request: ``"chat"``, ``"responses"`` or Anthropic's ``"messages"``.

    Attributes:
        text: of the original body.
        fields: its values by name.

    Raises:
        InputError: the body is no JSON object in UTF-8, or names a value twice.
    """

    def __init__(self, raw: bytes, protocol: Protocol = "chat") -> None:
        self.protocol = protocol
        try:
            self.text = raw.decode()
            parts = _read_object(self.text)
        except (ValueError, LookupError, RecursionError) as error:
            raise InputError(
                f"the body is no JSON object ({error}); required: a request of OpenAI's protocol"
            ) from error
        self._parts = {part.name: part for part in parts}
        self.fields: Mapping[str, Any] = {part.name: part.value for part in parts}
        if len(self._parts) < len(parts):
            raise InputError("the body names a value twice; required: each once")

    @property
    def chat(self) -> list[Message]:
        """Return the request as a chat; its system message, if it has one, is the first message."""
        system, items = self._system, self._chat_items
        return [*([] if system is None else [{"role": "system", "content": system}]), *items]

    def place_texts(self, candidate: Candidate, render: Render) -> bytes:
        """Return the body with the candidate's texts.

        Args:
            candidate: of the conversation.
            render: places the instruction.

        Raises:
            InputError: the request has no place for an instruction.
        """
        is_chat = "messages" in self.fields or "input" in self.fields
        edits = (
            self._chat_edits(candidate, render) if is_chat else [self._prompt(candidate, render)]
        )
        return self._edited([*edits, *self._tools(candidate)])

    def read_observation(self) -> str:
        """Return the text after the last answer of the policy in the request."""
        texts: list[str] = []
        for item in reversed(self._chat_items):
            if item.get("role") == "assistant" or item.get("type") in _OUTPUT_TYPES:
                break
            texts.append(_text_of_item(item))
        return "\n".join(filter(None, reversed(texts)))

    def request_usage(self, sent: bytes) -> bytes:
        """Return a request with the option for the usage at the end of its stream."""
        options = self.fields.get("stream_options")
        new_options = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        body = Body(sent)
        return body._edited([self._field(body, "stream_options", new_options)])

    @staticmethod
    def _field(body: Body, name: str, value: object) -> tuple[int, int, str]:
        """Return the edit that gives a field of the body a value."""
        value_text = json.dumps(value)
        part = body._parts.get(name)
        if part is not None:
            return part.start, part.end, value_text
        at = body.text.index("{") + 1
        return at, at, f"{json.dumps(name)}: {value_text}{', ' if body.fields else ''}"

    def _edited(self, edits: Iterable[tuple[int, int, str]]) -> bytes:
        text = self.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text.encode()

    @property
    def _system_name(self) -> str:
        """Name of the field with the instruction; empty if the instruction is a message."""
        if self.protocol == "messages":
            return "system"
        return "instructions" if self.protocol == "responses" else ""

    @property
    def _system(self) -> Any:
        return self.fields.get(self._system_name) or None if self._system_name else None

    @property
    def _items_name(self) -> str:
        return "input" if self.protocol == "responses" else "messages"

    @property
    def _chat_items(self) -> list[Any]:
        items = self.fields.get(self._items_name)
        if isinstance(items, str) and self.protocol == "responses":
            return [{"role": "user", "content": items}]
        return items if isinstance(items, list) else []

    def _chat_edits(self, candidate: Candidate, render: Render) -> list[tuple[int, int, str]]:
        items, system = self._chat_items, self._system
        if not items or not all(isinstance(item, dict) for item in items):
            raise InputError(
                f"{self._items_name} holds no list of messages; required: at least one message"
            )
        role = items[0].get("role")  # OpenAI's newer models call the system a developer
        messages = [{**items[0], "role": "system"}, *items[1:]] if role == "developer" else items
        chat = messages if system is None else [{"role": "system", "content": system}, *messages]
        rendered = list(cast(Sequence[Message], render(chat, candidate)))
        edits = []
        is_field = self._system_name and (system is not None or messages[0].get("role") != "system")
        if is_field and rendered[0].get("role") == "system":
            content = rendered.pop(0)["content"]
            if self.protocol == "responses" and not isinstance(content, str):
                content = text_of(content)
            edits.append(self._field(self, self._system_name, content))
        if role == "developer" and rendered[0].get("role") == "system":
            rendered[0] = {**rendered[0], "role": "developer"}
        if isinstance(self.fields[self._items_name], str):
            if rendered[0] is not items[0]:
                edits.append(self._field(self, self._items_name, rendered[0]["content"]))
            return edits
        if self.protocol == "responses":
            item_ids = set(map(id, items))
            rendered = [item if id(item) in item_ids else _as_input(item) for item in rendered]
        return [*edits, *self._items_edit(items, rendered)]

    def _items_edit(
        self, items: Sequence[Message], rendered: Sequence[Message]
    ) -> Iterator[tuple[int, int, str]]:
        """Yield the edit of the messages before the unchanged ones; those keep their bytes."""
        num_same = 0
        shorter = min(len(items), len(rendered))
        while num_same < shorter and rendered[-1 - num_same] is items[-1 - num_same]:
            num_same += 1
        parts = list(islice(self._items(self._items_name), max(1, len(items) - num_same)))
        texts = {
            id(value): self.text[part.start : part.end]
            for value, part in zip(items, parts, strict=False)
        }
        head = rendered[: len(rendered) - num_same]
        head_texts = [texts.get(id(message)) or json.dumps(message) for message in head]
        if num_same == len(items):
            if head_texts:
                yield parts[0].start, parts[0].start, "".join(f"{text}, " for text in head_texts)
            return
        yield parts[0].start, parts[-1].end, ", ".join(head_texts)

    def _prompt(self, candidate: Candidate, render: Render) -> tuple[int, int, str]:
        part = self._parts.get("prompt")
        if part is None or not isinstance(part.value, str):
            raise InputError(
                "the request has neither messages nor a prompt that is a text, so an instruction "
                "has no place; required: one of them; let the agent send text, not tokens"
            )
        return part.start, part.end, json.dumps(render(part.value, candidate))

    def _tools(self, candidate: Candidate) -> Iterator[tuple[int, int, str]]:
        descriptions = candidate.tool_descriptions
        for part in self._items("tools") if descriptions else ():
            tool = part.value if isinstance(part.value, dict) else {}
            function = tool.get("function", tool)  # the other protocols have no object within
            if isinstance(function, dict) and function.get("name") in descriptions:
                new_function = {**function, "description": descriptions[function["name"]]}
                new_tool = (
                    {**tool, "function": new_function} if "function" in tool else new_function
                )
                yield part.start, part.end, json.dumps(new_tool)

    def _items(self, name: str) -> Iterator[_Part]:
        if isinstance(self.fields.get(name), list):
            yield from _parts(self.text, self._parts[name].start)


def _as_input(item: Message) -> Message:
    """Return a message with the names that ``/responses`` has for its parts."""
    content = item.get("content")
    if not isinstance(content, list):
        return item
    parts = [
        {**part, "type": "input_text"}
        if isinstance(part, dict) and part.get("type") == "text"
        else part
        for part in content
    ]
    return {**item, "content": parts}


def _text_of_item(item: Mapping[str, Any]) -> str:
    """Return the text of a message, or of the result of a tool, of any protocol."""
    content = item.get("content", item.get("output"))
    parts = content if isinstance(content, list) else []
    results = [
        text_of(part.get("content"))
        for part in parts
        if isinstance(part, dict) and part.get("type") == "tool_result"
    ]
    return "\n".join(filter(None, [*results, text_of(content)]))


def _read_object(text: str) -> list[_Part]:
    """Return the values of a text that is one JSON object.

    Raises:
        ValueError: it is another text.
        LookupError: it ends too early.
    """
    start = _skip(text, 0)
    if text[start] != "{":
        raise ValueError("it begins otherwise")
    parts = list(_parts(text, start))
    end = _skip(text, parts[-1].end if parts else start + 1)  # of the closing brace
    if _skip(text, end + 1) != len(text):
        raise ValueError("it is followed by another text")
    return parts


def _parts(text: str, at: int) -> Iterator[_Part]:
    """Yield the values of the object or the array at a position of a text.

    Raises:
        ValueError: the text is no JSON.
    """
    is_object = text[at] == "{"
    end_mark = "}" if is_object else "]"
    at = _skip(text, at + 1)
    while text[at] != end_mark:
        name = ""
        if is_object:
            if text[at] != '"':
                raise ValueError(f"a name is missing at character {at}")
            name, at = _DECODER.raw_decode(text, at)
            at = _require(text, _skip(text, at), ":")
        value, end = _DECODER.raw_decode(text, at)
        yield _Part(name, value, at, end)
        at = _skip(text, end)
        if text[at] != end_mark:
            at = _require(text, at, ",")
            if text[at] == end_mark:
                raise ValueError(f"a value is missing at character {at}")


def _require(text: str, at: int, mark: str) -> int:
    """Return the position after a mark and white space.

    Raises:
        ValueError: another character is there.
    """
    if text[at] != mark:
        raise ValueError(f"{mark!r} is missing at character {at}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    """Return the position of the next character that is no white space."""
    space = _SPACE.match(text, at)
    return space.end() if space else at
