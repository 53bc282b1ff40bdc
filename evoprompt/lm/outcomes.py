"""Decision about the outcome of an exchange with a model's server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Form = Literal["events", "json", "other"]


class ExchangeOutcome(StrEnum):
    """Outcome of an exchange."""

    ANSWERED = "answered"
    """There is an answer of the policy, perhaps empty or cut at a limit of tokens."""
    CUT = "cut by the agent"
    """The agent has closed its connection; the answer is the content until then."""
    BROKEN = "broken"
    """The answer is missing or incomplete through no fault of the request."""
    REFUSED = "refused"
    """The server objects to the request."""
    ELSEWHERE = "elsewhere"
    """The server names another address."""


@dataclass(frozen=True, slots=True)
class FinishedExchange:
    """State of an exchange at its end.

    Attributes:
        status: of the answer; None without an answer.
        is_stream_requested: whether the request asks for events.
        content_type: of the answer, without parameters.
        beginning: the first bytes of the answer.
        finish_reason: of the first choice, in the words of the server.
        error: message of the server, the connection or the reader of the answer.
        has_content: whether a text or a call came.
        has_thought: whether a thought came.
        is_complete: whether the end of the answer came.
        is_left: whether the agent closed its connection before the end.
    """

    status: int | None = 200
    is_stream_requested: bool = False
    content_type: str = "application/json"
    beginning: bytes = b"{"
    finish_reason: object = None
    error: str = ""
    has_content: bool = True
    has_thought: bool = False
    is_complete: bool = True
    is_left: bool = False


_LENGTH_ENDS = (
    *("length", "max_tokens", "max_output_tokens", "model_length"),
    "model_context_window_exceeded",
)
_OWN_ENDS = (
    *(None, "stop", "end_turn", "eos", "eos_token", "stop_sequence", "completed"),
    *("tool_calls", "tool_use", "function_call"),
)  # ends by the model itself; with any other end an empty answer is broken
_ERROR_ENDS = ("error", "failed", "failure", "abort", "aborted", "cancelled", "network_error")
_NO_ENDS = ("", "null", "none")
_PASSING_STATUSES = (401, 402, 403, 408, 429)  # not the fault of the request, beside 500 and above
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":", b"\xef\xbb\xbf")
_EMPTY_ACCOUNT = ("insufficient_quota", "billing_hard_limit_reached", "insufficient_balance")


def read_finish_reason(value: object) -> str | None:
    """Return the reason of an answer's end in OpenAI's words; None without an end.

    >>> read_finish_reason("FinishReason.MAX_TOKENS"), read_finish_reason("null")
    ('length', None)
    """
    word = value.lower().rpartition(".")[2] if isinstance(value, str) else ""
    if word in _NO_ENDS:
        return None
    return "length" if word in _LENGTH_ENDS else word


def form_of(status: int, content_type: str, beginning: bytes, *, is_stream_requested: bool) -> Form:
    """Return the form of the body of an answer.

    Proxies change the type of a stream, and servers send errors with the type of one. So a body
    is a stream if it has the type and no other beginning, or was requested and begins as a stream.

    >>> form_of(200, "text/plain", b"data: {}", is_stream_requested=True)
    'events'
    """
    start = beginning.lstrip()
    if status < 400 and not start.startswith((b"{", b"[", b"<")):
        if content_type == "text/event-stream":
            return "events"
        if is_stream_requested and start.startswith(_FIELDS):
            return "events"
    return "json" if start.startswith(b"{") else "other"


def decide_outcome(exchange: FinishedExchange) -> tuple[ExchangeOutcome, str]:
    """Return the outcome of an exchange, with a reason if there is no answer of the policy.

    >>> decide_outcome(FinishedExchange(finish_reason="error"))[0].value
    'broken'
    """
    status, reason = exchange.status, read_finish_reason(exchange.finish_reason)
    if exchange.is_left:
        return ExchangeOutcome.CUT, ""
    if status is None:
        return ExchangeOutcome.BROKEN, exchange.error or "the server does not answer"
    if 300 <= status < 400:
        return ExchangeOutcome.ELSEWHERE, f"the server names another address ({status})"
    if status in _PASSING_STATUSES or status >= 500 or status < 200:
        return ExchangeOutcome.BROKEN, f"the upstream answers {status}"
    if status >= 400:
        return ExchangeOutcome.REFUSED, f"the upstream answers {status}"
    if exchange.error:
        return ExchangeOutcome.BROKEN, exchange.error
    form = form_of(
        status,
        exchange.content_type,
        exchange.beginning,
        is_stream_requested=exchange.is_stream_requested,
    )
    if form == "other":
        return ExchangeOutcome.BROKEN, f"it is no answer: {exchange.beginning[:100]!r}"
    if reason in _ERROR_ENDS:
        return ExchangeOutcome.BROKEN, f"the answer ended with finish_reason {reason}"
    if not exchange.is_complete:
        return ExchangeOutcome.BROKEN, "the stream ended before the answer did"
    is_only_thought = reason == "length" and exchange.has_thought
    if not exchange.has_content and reason not in _OWN_ENDS and not is_only_thought:
        return ExchangeOutcome.BROKEN, f"it answered nothing (finish_reason {reason})"
    return ExchangeOutcome.ANSWERED, ""


def is_account_empty(status: int, content: bytes) -> bool:
    """Return whether the account has no credit left, so that no later attempt helps.

    >>> is_account_empty(429, b'{"error": {"code": "insufficient_quota"}}')
    True
    """
    if status == 402:
        return True
    if status not in (403, 429):
        return False
    try:
        error = json.loads(content)["error"]
        words = (error.get("code"), error.get("type"))
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return False
    return any(word in _EMPTY_ACCOUNT for word in words)
