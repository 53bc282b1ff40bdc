"""The instruction in the body of a request; what is not rewritten stays as it is, to the byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from evoprompt.hosting.prompts import Message, Render
from evoprompt.hosting.rows import text_of
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


class _Part(NamedTuple):
    """A value of an object or an array, and where it stands in the text."""

    name: str
    value: Any
    start: int
    end: int


class Body:
    """The body of a request for a completion.

    Args:
        raw: its bytes.

    Attributes:
        text: as it came.
        fields: its values by name.

    Raises:
        InputError: it is no JSON object in UTF-8, or names a value twice.
    """

    def __init__(self, raw: bytes) -> None:
        try:
            self.text = raw.decode()
            self.fields: Mapping[str, Any] = dict(json.loads(self.text))
            parts = list(_parts(self.text, _skip(self.text, 0)))
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(
                f"the body is no JSON object ({error}); required: a request of OpenAI's protocol"
            ) from error
        self._parts = {part.name: part for part in parts}
        if len(self._parts) < len(parts):
            raise InputError("the body names a value twice; required: each once")

    def under(self, candidate: Candidate, render: Render) -> bytes:
        """The body with the candidate's texts.

        Args:
            candidate: under which the question is asked.
            render: places the instruction.

        Raises:
            InputError: the request has no place for an instruction.
        """
        place = self._messages if "messages" in self.fields else self._prompt
        edits = [place(candidate, render), *self._tools(candidate)]
        text = self.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text.encode()

    def said_last(self) -> str:
        """What came after the last answer of the policy that the request repeats."""
        said: list[str] = []
        for message in reversed(self.fields.get("messages") or ()):
            if message.get("role") == "assistant":
                break
            said.append(text_of(message.get("content")))
        return "\n".join(reversed(said))

    def _messages(self, candidate: Candidate, render: Render) -> tuple[int, int, str]:
        parts = list(self._items("messages"))
        given = [part.value for part in parts]
        if not given or not all(isinstance(one, dict) for one in given):
            raise InputError("messages are no list of messages; required: at least one message")
        named = given[0].get("role")  # OpenAI's newer models call the system a developer
        shown = [{**given[0], "role": "system"}, *given[1:]] if named == "developer" else given
        rendered = list(cast(Sequence[Message], render(shown, candidate)))
        if named == "developer" and rendered[0].get("role") == "system":
            rendered[0] = {**rendered[0], "role": "developer"}
        kept = 0
        while kept < min(len(given), len(rendered)) and rendered[-1 - kept] is given[-1 - kept]:
            kept += 1
        texts = {id(part.value): self.text[part.start : part.end] for part in parts}
        head = [texts.get(id(one)) or json.dumps(one) for one in rendered[: len(rendered) - kept]]
        if kept == len(given):
            return parts[0].start, parts[0].start, "".join(f"{one}, " for one in head)
        return parts[0].start, parts[-1 - kept].end, ", ".join(head)

    def _prompt(self, candidate: Candidate, render: Render) -> tuple[int, int, str]:
        part = self._parts.get("prompt")
        if part is None or not isinstance(part.value, str):
            raise InputError(
                "there are no messages, and no prompt that is a text: an instruction has no place; "
                "required: one of them; let the agent send no tokens"
            )
        return part.start, part.end, json.dumps(render(part.value, candidate))

    def _tools(self, candidate: Candidate) -> Iterator[tuple[int, int, str]]:
        descriptions = candidate.tool_descriptions
        for part in self._items("tools") if descriptions else ():
            function = part.value.get("function") if isinstance(part.value, dict) else None
            if isinstance(function, dict) and function.get("name") in descriptions:
                shown = {**function, "description": descriptions[function["name"]]}
                yield part.start, part.end, json.dumps({**part.value, "function": shown})

    def _items(self, name: str) -> Iterator[_Part]:
        if isinstance(self.fields.get(name), list):
            yield from _parts(self.text, self._parts[name].start)


def _parts(text: str, at: int) -> Iterator[_Part]:
    """The values of the object or the array at a place of a text that is known to be JSON."""
    named = text[at] == "{"
    at = _skip(text, at + 1)
    while text[at] not in "]}":
        name = ""
        if named:
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        value, end = _DECODER.raw_decode(text, at)
        yield _Part(name, value, at, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    """Where something stands that is no white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at
