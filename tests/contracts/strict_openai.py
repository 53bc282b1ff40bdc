"""A server on loopback that refuses what OpenAI refuses, whose reasoning models think first.

The rules and messages are those of the chat completions and responses APIs. They hold for models
of OpenAI's names; any other name stands for a server of one's own, which takes what it is given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evoprompt.testing.openai_server import Answer, Body, OpenAIServer, Received, Step, Text

CHAT = "/chat/completions"
RESPONSES = "/responses"
THINKING_TOKENS = 5_000
"""What a reasoning model spends here before the first word of its answer."""

_CHAT_PARAMETERS = (
    "audio|frequency_penalty|logit_bias|logprobs|max_completion_tokens|max_tokens|messages|metadata"
    "|modalities|model|n|parallel_tool_calls|prediction|presence_penalty|prompt_cache_key"
    "|reasoning_effort|response_format|safety_identifier|seed|service_tier|stop|store|stream"
    "|stream_options|temperature|tool_choice|tools|top_logprobs|top_p|user|verbosity"
)
_RESPONSES_PARAMETERS = (
    "background|conversation|include|input|instructions|max_output_tokens|max_tool_calls|metadata"
    "|model|parallel_tool_calls|previous_response_id|prompt|prompt_cache_key|reasoning"
    "|safety_identifier|service_tier|store|stream|stream_options|temperature|text|tool_choice|tools"
    "|top_logprobs|top_p|truncation|user"
)
_ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
_USUAL = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "n": 1}
_NO_REASONING = ("logprobs", "top_logprobs", "logit_bias", "stop")


@dataclass(frozen=True, slots=True)
class Family:
    """Models of OpenAI that are alike.

    Attributes:
        reasons: whether they think before they answer.
        longest_answer: most output tokens that may be asked for.
        responses_only: whether the chat completions API does not serve them.
    """

    reasons: bool
    longest_answer: int
    responses_only: bool = False


_FAMILIES = (
    (r"gpt-5[\d.]*-chat.*", Family(False, 16_384)),
    (r"gpt-5.*-(pro|codex).*", Family(True, 128_000, responses_only=True)),
    (r"gpt-5.*", Family(True, 128_000)),
    (r"o\d+(-mini)?-(pro|deep-research).*", Family(True, 100_000, responses_only=True)),
    (r"o\d.*", Family(True, 100_000)),
    (r"gpt-4\.1.*", Family(False, 32_768)),
    (r"gpt-4o.*", Family(False, 16_384)),
    (r"gpt-(4|3\.5).*", Family(False, 4_096)),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error of the API.

    Attributes:
        message: what is wrong.
        parameter: the name of what is wrong; None where it is not one alone.
        status: of HTTP.
    """

    message: str
    parameter: str | None = None
    status: int = 400

    def body(self) -> dict[str, Any]:
        """The JSON that says so."""
        kind = "invalid_request_error"
        said = {"message": self.message, "type": kind, "param": self.parameter, "code": None}
        return {"error": said}


def family_of(model: object) -> Family | None:
    """The family of a model's name; None if it is not one of OpenAI's."""
    found = (family for name, family in _FAMILIES if re.fullmatch(name, str(model)))
    return next(found, None)


def limit_of(body: Mapping[str, Any]) -> int | None:
    """Most output tokens that a request asks for; None for no limit."""
    names = ("max_completion_tokens", "max_output_tokens", "max_tokens")
    found: int | None = next((body[name] for name in names if body.get(name) is not None), None)
    return found


def refusal(path: str, body: Mapping[str, Any], authorization: str) -> Refusal | None:
    """Why OpenAI would not answer this request; None if it would."""
    family = family_of(body.get("model"))
    return None if family is None else next(_refusals(path, body, authorization, family), None)


def _refusals(
    path: str, body: Mapping[str, Any], authorization: str, family: Family
) -> Iterator[Refusal]:
    key = authorization.removeprefix("Bearer").strip()
    if not key:
        yield Refusal("You didn't provide an API key.", status=401)
    if not key.startswith("sk-"):
        yield Refusal(f"Incorrect API key provided: {key[:3]}***.", status=401)
    chat = path.endswith(CHAT)
    if not chat and not path.endswith(RESPONSES):
        yield Refusal(f"Invalid URL (POST {path})", status=404)
    if family.responses_only and chat:
        message = "This model is only supported in v1/responses and not in v1/chat/completions."
        yield Refusal(message, "model", 404)
    known = (_CHAT_PARAMETERS if chat else _RESPONSES_PARAMETERS).split("|")
    for name in body.keys() - known:
        yield Refusal(f"Unknown parameter: '{name}'.", name)
    yield from _numbers(body, family)
    yield from _reasoning(body) if family.reasons else _plain(body)
    if chat:
        yield from _messages(body.get("messages") or [], body)


def _numbers(body: Mapping[str, Any], family: Family) -> Iterator[Refusal]:
    temperature, limit = body.get("temperature"), limit_of(body)
    if temperature is not None and not 0 <= temperature <= 2:
        yield Refusal(f"Invalid 'temperature': {temperature} is not between 0 and 2.")
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        message = "Setting 'max_tokens' and 'max_completion_tokens' together is not supported."
        yield Refusal(message)
    least = 16 if "max_output_tokens" in body else 1
    if limit is not None and limit < least:
        yield Refusal(f"Invalid limit: {limit} is below {least}.")
    if limit is not None and limit > family.longest_answer:
        most = f"This model supports at most {family.longest_answer} completion tokens."
        yield Refusal(f"max_tokens is too large: {limit}. {most}", "max_tokens")


def _reasoning(body: Mapping[str, Any]) -> Iterator[Refusal]:
    if body.get("max_tokens") is not None:
        message = "Unsupported parameter: 'max_tokens' is not supported with this model. "
        yield Refusal(f"{message}Use 'max_completion_tokens' instead.", "max_tokens")
    for name, usual in _USUAL.items():
        if body.get(name) not in (None, usual):
            message = f"'{name}' does not support {body[name]} with this model. "
            only = f"Only the default ({usual}) value is supported."
            yield Refusal(f"Unsupported value: {message}{only}", name)
    for name in _NO_REASONING:
        if body.get(name) is not None:
            message = f"Unsupported parameter: '{name}' is not supported with this model."
            yield Refusal(message, name)


def _plain(body: Mapping[str, Any]) -> Iterator[Refusal]:
    for name in ("reasoning_effort", "reasoning"):
        if body.get(name) is not None:
            yield Refusal(f"Unrecognized request argument supplied: {name}", name)


def _messages(messages: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> Iterator[Refusal]:
    """What is wrong with tools and messages: each call has one result, right after it."""
    if not messages:
        yield Refusal("Missing required parameter: 'messages'.", "messages")
    for tool in body.get("tools", ()):
        name = tool.get("function", {}).get("name")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(name)):
            yield Refusal(f"Invalid 'tools': the name {name!r} does not match pattern.", "tools")
    open_calls: list[str] = []
    for message in messages:
        role = message.get("role")
        if role not in _ROLES:
            yield Refusal(f"Invalid value: '{role}'.")
        if role == "tool" and message.get("tool_call_id") in open_calls:
            open_calls.remove(message["tool_call_id"])
        elif role == "tool" or open_calls:
            yield Refusal("Each of 'tool_calls' must be followed by one message of role 'tool'.")
        for call in message.get("tool_calls") or ():
            if not isinstance(call.get("function", {}).get("arguments"), str):
                yield Refusal("Invalid type for 'arguments': expected a string.")
            open_calls.append(call["id"])
    wanted = (body.get("response_format") or {}).get("type")
    if wanted == "json_object" and "json" not in str(messages).lower():
        yield Refusal("'messages' must contain the word 'json' to use 'json_object'.", "messages")


class StrictServer(OpenAIServer):
    """As strict as OpenAI to models of its names.

    Attributes:
        refused: messages of what was refused, not by the script but by the rules.
    """

    def __init__(self, script: Iterable[Answer] = (), default: Answer = "ok") -> None:
        super().__init__(script, default)
        self.refused: list[str] = []

    def reply(self, received: Received) -> Step:
        refused = refusal(received.path, received.body, received.authorization)
        if refused is not None:
            self.refused.append(refused.message)
            return Body(json.dumps(refused.body()).encode(), refused.status)
        step = super().reply(received)
        if not isinstance(step, Text):
            return step
        step = _within_limit(step, received.body)
        if received.path.endswith(RESPONSES):
            return Body(json.dumps(_response(step, received.body)).encode())
        return step


_CHARACTERS = 4  # of English text make about one token


def _within_limit(step: Text, body: Mapping[str, Any]) -> Text:
    """What is left of ``step`` within the limit asked for, after thinking."""
    family, limit = family_of(body.get("model")), limit_of(body)
    if family is None or limit is None:
        return step
    thought = min(THINKING_TOKENS, limit) if family.reasons else 0
    room = (limit - thought) * _CHARACTERS
    if len(step.text) <= room:
        return replace(step, completion_tokens=min(thought + step.completion_tokens, limit))
    return replace(step, text=step.text[:room], finish_reason="length", completion_tokens=limit)


def _response(step: Text, body: Mapping[str, Any]) -> dict[str, Any]:
    """The same as the responses API says it."""
    text = {"type": "output_text", "text": step.text, "annotations": []}
    cut = step.finish_reason == "length"
    message = {
        "type": "message",
        "id": "scripted",
        "role": "assistant",
        "status": "incomplete" if cut else "completed",
        "content": [text],
    }
    return {
        "id": "scripted",
        "object": "response",
        "created_at": 0,
        "model": body.get("model"),
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": [message],
        "usage": {
            "input_tokens": step.prompt_tokens,
            "output_tokens": step.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": step.prompt_tokens + step.completion_tokens,
        },
    }
