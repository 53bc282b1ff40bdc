"""What an upstream answers, read along while its bytes pass: text, calls, usage, and the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evoprompt.agents.conversation import written_action
from evoprompt.hosting.rows import text_of


class Answer:
    """The first choice of an answer, whole or as server-sent events.

    Attributes:
        usage: tokens of prompt and answer, as far as the upstream told.
        wrong: why it is no answer; empty while it is one.
        is_abandoned: whether the agent left before the end.
        is_lost: whether the upstream closed a connection that it had kept open, unanswered.
        is_free: whether the upstream refused the request, or never saw it.
        on_kept_connection: whether an earlier request used the same connection.
    """

    def __init__(self) -> None:
        self.usage: tuple[object, object] = (None, None)
        self.wrong = ""
        self.is_abandoned = self.is_lost = self.is_free = self.on_kept_connection = False
        self._said: list[str] = []
        self._thought: list[str] = []
        self._calls: dict[int, list[str]] = {}
        self._rest = b""
        self._finished = False

    @property
    def text(self) -> str:
        """What was said, with the calls of tools."""
        calls = [(name, arguments) for _, (name, arguments) in sorted(self._calls.items())]
        return written_action("".join(self._said), calls, "".join(self._thought))

    @property
    def has_begun(self) -> bool:
        """Whether a part of it has come."""
        return bool(self._said)

    def read(self, data: bytes) -> None:
        """Reads an answer that came at once, or the next part of one."""
        try:
            found = json.loads(data)
            if found.get("error"):
                self.wrong = f"it tells of an error: {data[:200]!r}"
            else:
                self._object(found)
        except (ValueError, RecursionError, AttributeError, TypeError):
            self.wrong = f"it is no answer: {data[:100]!r}"

    def read_events(self, piece: bytes) -> None:
        """Reads the next bytes of a stream, wherever it is cut."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            name, _, data = line.strip().partition(b":")
            if name != b"data" or self.wrong:
                continue
            if data.strip() == b"[DONE]":
                self._finished = True
            else:
                self.read(data)

    def end(self) -> None:
        """Notes that nothing follows."""
        if not self.wrong and not self._finished:
            self.wrong = "the stream ended before the answer did"

    def _object(self, found: Mapping[str, Any]) -> None:
        if used := found.get("usage"):
            self.usage = used.get("prompt_tokens"), used.get("completion_tokens")
        for choice in found.get("choices") or ():
            if choice.get("index"):
                continue
            self._finished = self._finished or choice.get("finish_reason") is not None
            said = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
            self._said.append(text_of(said.get("content")))
            self._thought.append(text_of(said.get("reasoning_content")))
            for place, call in enumerate(said.get("tool_calls") or ()):
                self._call(call.get("index", place), call.get("function") or {})

    def _call(self, number: int, function: Mapping[str, Any]) -> None:
        """A call, or the next part of one: only the first part of a call has its name."""
        known = self._calls.setdefault(number, ["", ""])
        known[0] += function.get("name") or ""
        arguments = function.get("arguments") or ""  # some servers send an object
        known[1] += arguments if isinstance(arguments, str) else json.dumps(arguments)
