"""Reader for answers of a server in any of three protocols, while their bytes pass.

The protocols are chat completions (and completions), responses, and Anthropic's messages. The
fields of an object determine its protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from evoprompt.agents.messages import MessageReader, read_text
from evoprompt.lm.events import ServerEvent
from evoprompt.lm.outcomes import FinishedExchange, read_finish_reason

_UNREADABLE = (ValueError, RecursionError, AttributeError, TypeError, LookupError)


class AnswerReader:
    """Reader of the first choice of an answer, whole or as server-sent events.

    Attributes:
        message: the parts that have been read.
        usage: tokens of prompt and answer; None for numbers that the server does not report.
        error: the reason why the content is no answer; empty without an error.
        finish_reason: in the words of the server.
        is_complete: whether the end of the answer has come.
    """

    def __init__(self) -> None:
        self.message = MessageReader()
        self.usage: tuple[object, object] = (None, None)
        self.error = ""
        self.finish_reason: object = None
        self.is_complete = False
        self._is_done = False

    def read_whole(self, content: bytes) -> None:
        """Read an answer that came in one piece."""
        self._read(content, is_whole=True)
        self.is_complete = True

    def read_events(self, events: Iterable[ServerEvent]) -> None:
        """Read the next events of an answer; nothing is read after an error or ``[DONE]``."""
        for event in events:
            if self.error or self._is_done or not event.data.strip():
                continue
            if event.data.strip() == b"[DONE]":
                self.is_complete = self._is_done = True  # clients read no further
            elif event.name == b"error":
                self.error = f"it reports an error: {event.data[:200]!r}"
            else:
                self._read(event.data, is_whole=False)

    def exchange(self, **fields: Any) -> FinishedExchange:
        """Return the exchange with the state of the answer and further fields."""
        error = fields.pop("error", "") or self.error
        return FinishedExchange(
            finish_reason=self.finish_reason,
            has_content=self.message.has_content,
            has_thought=self.message.has_thought,
            is_complete=self.is_complete,
            error=error,
            **fields,
        )

    def _read(self, content: bytes, *, is_whole: bool) -> None:
        try:
            read = json.loads(content)
            if read.get("error") or read.get("type") == "error":
                self.error = f"it reports an error: {content[:200]!r}"
            elif "choices" in read:
                self._read_chat(read, is_whole=is_whole)
            elif isinstance(read.get("response"), dict) or str(read.get("type"))[:9] == "response.":
                self._read_response_event(read)
            elif "output" in read:
                self._read_response(read)
            elif not is_whole and isinstance(read.get("type"), str):
                self._read_message_event(read)
            elif isinstance(read.get("content"), list):
                self._read_anthropic(read)
            elif is_whole:
                self.error = f"it is no answer: {content[:100]!r}"
        except _UNREADABLE:
            self.error = f"it is no answer: {content[:100]!r}"

    def _end(self, reason: object) -> None:
        if read_finish_reason(reason) is not None:
            self.finish_reason, self.is_complete = reason, True

    def _count(self, usage: object) -> None:
        """Store the tokens that a server reports as used, in the names of either protocol."""
        if not isinstance(usage, dict):
            return
        cached = [usage.get(f"cache_{kind}_input_tokens") for kind in ("creation", "read")]
        prompt = usage.get("prompt_tokens", usage.get("input_tokens"))
        if isinstance(prompt, int):
            prompt += sum(number for number in cached if isinstance(number, int))
        answer = usage.get("completion_tokens", usage.get("output_tokens"))
        old_prompt, old_answer = self.usage
        self.usage = (
            old_prompt if prompt is None else prompt,
            old_answer if answer is None else answer,
        )

    # ------------------------------------------------------------------ /chat/completions

    def _read_chat(self, read: Mapping[str, Any], *, is_whole: bool) -> None:
        self._count(read.get("usage"))
        choices = read["choices"] or ()
        if is_whole and not choices:
            self.error = "it is no answer: there is no choice"
        for choice in choices:
            if choice.get("index"):
                continue
            if choice.get("error"):
                self.error = f"its choice reports an error: {choice['error']!r:.200}"
            message = choice.get("delta") or choice.get("message")
            if message is None or ("text" in choice and not message):
                message = {"content": choice.get("text")}
            self.message.add(message, is_whole="message" in choice)
            self._end(choice.get("finish_reason"))

    # ------------------------------------------------------------------------- /responses

    def _read_response(self, read: Mapping[str, Any]) -> None:
        self._count(read.get("usage"))
        if read.get("output"):
            self.message.clear()
        for item in read.get("output") or ():
            self._read_item(item)
        details = read.get("incomplete_details") or {}
        self._end(details.get("reason") or read.get("status"))

    def _read_item(self, item: Mapping[str, Any]) -> None:
        kind = item.get("type")
        if kind == "message":
            for part in item.get("content") or ():
                text = part.get("refusal") if part.get("type") == "refusal" else part.get("text")
                self.message.texts.append(read_text(text))
        elif kind == "reasoning":
            thought = item.get("content") or item.get("summary")
            self.message.thoughts.append(read_text(thought, ("reasoning_text", "summary_text")))
        elif kind in ("function_call", "custom_tool_call"):
            self.message.add_call(None, item.get("name"), item.get("arguments", item.get("input")))

    def _read_response_event(self, read: Mapping[str, Any]) -> None:
        kind, delta = str(read.get("type")), read.get("delta")
        call_place = read.get("item_id") or read.get("output_index")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self.message.texts.append(read_text(delta))
        elif kind.startswith("response.reasoning") and kind.endswith(".delta"):
            self.message.thoughts.append(read_text(delta))
        elif kind == "response.output_item.added" and read["item"].get("name"):
            item = read["item"]
            self.message.add_call(item.get("id") or read.get("output_index"), item["name"], "")
        elif kind.endswith(("arguments.delta", "input.delta")):
            self.message.add_call(call_place, "", delta)
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._read_response(read["response"])
            if read["response"].get("error"):
                self.error = f"it reports an error: {read['response']['error']!r:.200}"

    # -------------------------------------------------------------------------- /messages

    def _read_anthropic(self, read: Mapping[str, Any]) -> None:
        self._count(read.get("usage"))
        for number, block in enumerate(read.get("content") or ()):
            self._read_block(number, block)
        self._end(read.get("stop_reason"))

    def _read_block(self, number: object, block: Mapping[str, Any]) -> None:
        if block.get("type") == "tool_use":
            self.message.add_call(number, block.get("name"), block.get("input") or "")
        elif block.get("type") == "thinking":
            self.message.thoughts.append(read_text(block.get("thinking")))
        elif block.get("type") == "text":
            self.message.texts.append(read_text(block.get("text")))

    def _read_message_event(self, read: Mapping[str, Any]) -> None:
        kind, delta = read["type"], read.get("delta") or {}
        if kind == "message_start":
            self._read_anthropic(read["message"])
        elif kind == "content_block_start":
            self._read_block(read.get("index"), read["content_block"])
        elif kind == "content_block_delta":
            self.message.texts.append(read_text(delta.get("text")))
            self.message.thoughts.append(read_text(delta.get("thinking")))
            if delta.get("partial_json"):
                self.message.add_call(read.get("index"), "", delta["partial_json"])
        elif kind == "message_delta":
            self._count(read.get("usage"))
            self._end(delta.get("stop_reason"))
        elif kind == "message_stop":
            self.is_complete = True
