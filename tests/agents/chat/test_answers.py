"""Answers of the three protocols, whole and in parts, in the forms that servers write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evoprompt.agents.answers import AnswerReader
from evoprompt.lm.events import ServerEvent
from evoprompt.lm.outcomes import ExchangeOutcome, decide_outcome

CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "left"}}\n</tool_call>'


def read_parts(*parts: dict[str, Any]) -> AnswerReader:
    reader = AnswerReader()
    reader.read_events(ServerEvent(b"", json.dumps(part).encode(), b"") for part in parts)
    return reader


def read_whole(answer: dict[str, Any]) -> AnswerReader:
    reader = AnswerReader()
    reader.read_whole(json.dumps(answer).encode())
    return reader


def delta(finish: object = None, **message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": message, "finish_reason": finish}]}


def tool(arguments: str, name: str = "", index: int | None = 0, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"function": function, **({} if index is None else {"index": index}), **more}


@pytest.mark.parametrize(
    ("message", "action"),
    [
        ({"content": "4", "reasoning": "Hm."}, "<think>Hm.</think>\n4"),
        ({"content": "4", "reasoning_content": "Hm."}, "<think>Hm.</think>\n4"),
        ({"content": "4", "reasoning_content": "Hm.", "reasoning": "Hm."}, "<think>Hm.</think>\n4"),
        (
            {"content": "4", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
            "<think>Hm.</think>\n4",
        ),
        ({"content": None, "refusal": "No."}, "No."),
        ({"content": [{"type": "text", "text": "4"}]}, "4"),
        ({"function_call": {"name": "look", "arguments": '{"at": "left"}'}}, CALL),
        ({"tool_calls": [tool('{"at": "left"}', "look")]}, CALL),
        (
            {"tool_calls": [{"type": "custom", "custom": {"name": "look", "input": "left"}}]},
            CALL.replace('{"at": "left"}', '"left"'),
        ),
    ],
)
def test_every_field_of_a_message_is_read(message: dict[str, Any], action: str) -> None:
    whole = read_whole({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert whole.message.action == action
    assert read_parts(delta(**message), delta("stop")).message.action == action


@pytest.mark.parametrize(
    "parts",
    [
        [tool('{"at": "left"}', "look", id="a"), tool('{"at": "left"}', "look", id="b")],
        [tool('{"at": "left"}', "look", 0), tool('{"at": "left"}', "look", 1)],
        [tool('{"at": "left"}', "look", 0), tool('{"at": "left"}', "look", 0)],
        [
            tool('{"at": "left"}', "look", None, id="a"),
            tool('{"at": "left"}', "look", None, id="b"),
        ],
        [
            *(tool("", "look", 0, id="a"), tool("", "look", 1, id="b")),
            *(tool('{"at"', "", 0), tool('{"at": ', "", 1), tool(': "left"}', "", 0)),
            tool('"left"}', "", 1),
        ],
        [
            *(tool('{"at": ', "look", id="a"), tool('"left"}', "look")),
            *(tool('{"at": ', "look", id="b"), tool('"left"}', "look", id="b")),
        ],
    ],
)
def test_parallel_calls_are_told_apart_however_they_are_numbered(parts: list[Any]) -> None:
    reader = read_parts(*(delta(tool_calls=[part]) for part in parts), delta("tool_calls"))
    assert reader.message.action == f"{CALL}\n{CALL}"


def test_halves_of_a_character_are_joined() -> None:
    assert read_parts(delta(content="\ud83d"), delta(content="\ude00")).message.action == "😀"


RESPONSE: dict[str, Any] = {
    "object": "response",
    "status": "completed",
    "usage": {"input_tokens": 5, "output_tokens": 2},
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "content": [{"type": "output_text", "text": "4"}]},
        {"type": "function_call", "name": "look", "arguments": '{"at": "left"}'},
    ],
}
RESPONSE_EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"status": "in_progress", "output": []}},
    {"type": "response.reasoning_summary_text.delta", "delta": "Hm."},
    {"type": "response.output_text.delta", "delta": "4"},
    {
        "type": "response.output_item.added",
        "output_index": 2,
        "item": {"id": "f", "type": "function_call", "name": "look", "arguments": ""},
    },
    {"type": "response.function_call_arguments.delta", "item_id": "f", "delta": '{"at": '},
    {"type": "response.function_call_arguments.delta", "item_id": "f", "delta": '"left"}'},
]
MESSAGE: dict[str, Any] = {
    "type": "message",
    "content": [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "4"},
        {"type": "tool_use", "name": "look", "input": {"at": "left"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 2},
}
MESSAGE_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 5}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
    {"type": "content_block_delta", "index": 0, "delta": {"thinking": "Hm."}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "4"}},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "name": "look", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"partial_json": '{"at": '}},
    {"type": "content_block_delta", "index": 2, "delta": {"partial_json": '"left"}'}},
]
ENDS: list[dict[str, Any]] = [
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]


@pytest.mark.parametrize(
    "reader",
    [
        read_whole(RESPONSE),
        read_parts(*RESPONSE_EVENTS, {"type": "response.completed", "response": RESPONSE}),
        read_parts(
            *RESPONSE_EVENTS,
            {"type": "response.completed", "response": {**RESPONSE, "output": []}},
        ),
        read_whole(MESSAGE),
        read_parts(*MESSAGE_EVENTS, *ENDS),
    ],
)
def test_the_other_protocols_are_read_whole_and_in_parts(reader: AnswerReader) -> None:
    assert reader.message.action == f"<think>Hm.</think>\n4\n{CALL}"
    assert reader.usage == (5, 2)
    assert decide_outcome(reader.exchange())[0] is ExchangeOutcome.ANSWERED


@pytest.mark.parametrize(
    "reader",
    [
        read_parts(*RESPONSE_EVENTS),
        read_parts(*MESSAGE_EVENTS),
        read_parts({"type": "error", "error": {"message": "overloaded"}}),
        read_parts({"type": "response.failed", "response": {"error": {"message": "oh"}}}),
        read_parts({"choices": [{"index": 0, "error": {"message": "oh"}}]}),
        read_parts(delta(content="4"), delta("")),
        read_parts(delta(content="4"), delta("null")),
        read_parts(delta(content="4"), delta("error")),
        read_parts(delta("content_filter")),
        read_whole({"choices": []}),
        read_whole({"choices": None}),
        read_whole({"object": "response", "status": "failed", "output": []}),
        read_whole({}),
    ],
)
def test_what_is_no_answer_of_the_policy_is_broken(reader: AnswerReader) -> None:
    assert decide_outcome(reader.exchange())[0] is ExchangeOutcome.BROKEN
