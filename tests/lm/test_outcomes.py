"""What became of an exchange: a table, and the servers whose answers are in it."""

from __future__ import annotations

from typing import Any

import pytest

from evoprompt.lm.outcomes import (
    ExchangeOutcome,
    FinishedExchange,
    decide_outcome,
    form_of,
    is_account_empty,
    read_finish_reason,
)

ANSWERED, CUT, BROKEN, REFUSED, ELSEWHERE = ExchangeOutcome
EVENTS: dict[str, Any] = {
    "is_stream_requested": True,
    "content_type": "text/event-stream",
    "beginning": b"data: {}",
}


@pytest.mark.parametrize(
    ("known", "outcome"),
    [
        ({}, ANSWERED),
        ({"finish_reason": "stop"}, ANSWERED),
        ({"finish_reason": "stop", "has_content": False}, ANSWERED),
        ({"finish_reason": "tool_calls"}, ANSWERED),
        ({"finish_reason": "length"}, ANSWERED),
        ({"finish_reason": "MAX_TOKENS", "has_content": False, "has_thought": True}, ANSWERED),
        ({"finish_reason": "content_filter"}, ANSWERED),
        (EVENTS, ANSWERED),
        ({**EVENTS, "content_type": "text/plain"}, ANSWERED),
        ({**EVENTS, "content_type": "application/json"}, ANSWERED),
        ({**EVENTS, "content_type": ""}, ANSWERED),
        ({**EVENTS, "beginning": b": hello"}, ANSWERED),
        ({**EVENTS, "is_complete": False, "is_left": True}, CUT),
        ({"status": None, "is_left": True}, CUT),
        ({"error": "it broke", "is_left": True}, CUT),
        ({"status": None}, BROKEN),
        ({**EVENTS, "is_complete": False}, BROKEN),
        ({"error": "its choice reports an error"}, BROKEN),
        ({"beginning": b"<html>"}, BROKEN),
        ({"beginning": b""}, BROKEN),
        ({"beginning": b"[]"}, BROKEN),
        ({"finish_reason": "error"}, BROKEN),
        ({"finish_reason": "abort", "has_content": False}, BROKEN),
        ({"finish_reason": "length", "has_content": False}, BROKEN),
        ({"finish_reason": "content_filter", "has_content": False}, BROKEN),
        ({"finish_reason": "SAFETY", "has_content": False}, BROKEN),
        *(({"status": status}, BROKEN) for status in (100, 401, 402, 403, 408, 429, 500, 503, 529)),
        *(({"status": status}, REFUSED) for status in (400, 404, 413, 415, 422)),
        *(({"status": status}, ELSEWHERE) for status in (301, 302, 303, 304, 307, 308)),
    ],
)
def test_each_exchange_has_one_outcome(known: dict[str, Any], outcome: ExchangeOutcome) -> None:
    decided, reason = decide_outcome(FinishedExchange(**known))
    assert decided is outcome
    assert bool(reason) == (outcome not in (ANSWERED, CUT))


@pytest.mark.parametrize("value", ["", "null", "None", None, 3, [], {}])
def test_what_is_no_word_is_no_end(value: object) -> None:
    assert read_finish_reason(value) is None


@pytest.mark.parametrize(
    ("status", "kind", "beginning", "is_stream_requested", "form"),
    [
        (200, "text/event-stream", b"data: {}", False, "events"),
        (200, "text/event-stream", b"\n\ndata: {}", True, "events"),
        (200, "text/event-stream", b"", True, "events"),
        (200, "text/event-stream", b'{"error": {}}', True, "json"),
        (400, "text/event-stream", b"data: {}", True, "other"),
        (200, "text/plain", b"\xef\xbb\xbfdata: {}", True, "events"),
        (200, "text/plain", b"data: {}", False, "other"),
        (200, "application/json", b' {"id": 1}', True, "json"),
        (200, "text/html", b"<html>", True, "other"),
    ],
)
def test_the_form_of_an_answer(
    status: int, kind: str, beginning: bytes, is_stream_requested: bool, form: str
) -> None:
    assert form_of(status, kind, beginning, is_stream_requested=is_stream_requested) == form


@pytest.mark.parametrize(
    ("status", "content", "is_empty"),
    [
        (402, b"", True),
        (429, b'{"error": {"code": "insufficient_quota"}}', True),
        (429, b'{"error": {"type": "insufficient_quota"}}', True),
        (403, b'{"error": {"code": "billing_hard_limit_reached"}}', True),
        (429, b'{"error": {"code": "rate_limit_exceeded"}}', False),
        (429, b'{"error": "slow"}', False),
        (429, b"[" * 100_000, False),
        (500, b'{"error": {"code": "insufficient_quota"}}', False),
    ],
)
def test_an_empty_account_is_told_from_a_busy_server(
    status: int, content: bytes, is_empty: bool
) -> None:
    assert is_account_empty(status, content) is is_empty
