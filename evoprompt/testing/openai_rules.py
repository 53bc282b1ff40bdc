"""What OpenAI refuses, so that a server on loopback refuses it too.

The rules and messages are those of the chat completions and responses APIs. They hold for models
of OpenAI's names; any other name stands for a server of one's own, which takes what it is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
_SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "n")
_DEFAULTS = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "n": 1}
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
    """An error of the API."""

    status: int
    message: str
    code: str | None = None
    parameter: str | None = None

    def body(self) -> dict[str, Any]:
        """The JSON that says so."""
        kind = "invalid_request_error"
        return {
            "error": {
                "message": self.message,
                "type": kind,
                "param": self.parameter,
                "code": self.code,
            }
        }


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
    if family is None:
        return None
    return (
        _key(authorization)
        or _endpoint(path, body, family)
        or _parameters(path, body)
        or _limits(body, family)
        or (_reasoning(body) if family.reasons else _plain(body))
        or (_messages(body) if path.endswith(CHAT) else None)
    )


def _key(authorization: str) -> Refusal | None:
    key = authorization.removeprefix("Bearer").strip()
    if not key:
        return Refusal(401, "You didn't provide an API key.")
    if not key.startswith("sk-"):
        return Refusal(401, f"Incorrect API key provided: {key[:3]}***.", "invalid_api_key")
    return None


def _endpoint(path: str, body: Mapping[str, Any], family: Family) -> Refusal | None:
    if not path.endswith((CHAT, RESPONSES)):
        return Refusal(404, f"Invalid URL (POST {path})")
    if family.responses_only and path.endswith(CHAT):
        return Refusal(
            404,
            "This model is only supported in v1/responses and not in v1/chat/completions.",
            parameter="model",
        )
    return None


def _parameters(path: str, body: Mapping[str, Any]) -> Refusal | None:
    known = _CHAT_PARAMETERS if path.endswith(CHAT) else _RESPONSES_PARAMETERS
    for name in body:
        if not re.fullmatch(known, name):
            return Refusal(400, f"Unknown parameter: '{name}'.", "unknown_parameter", name)
    temperature = body.get("temperature")
    if temperature is not None and not 0 <= temperature <= 2:
        return Refusal(
            400,
            f"Invalid 'temperature': {temperature} is not between 0 and 2.",
            "decimal_out_of_range",
            "temperature",
        )
    return None


def _limits(body: Mapping[str, Any], family: Family) -> Refusal | None:
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        return Refusal(
            400, "Setting 'max_tokens' and 'max_completion_tokens' together is not supported."
        )
    limit = limit_of(body)
    if limit is None:
        return None
    least = 16 if "max_output_tokens" in body else 1
    if limit < least:
        return Refusal(400, f"Invalid limit: {limit} is below {least}.", "integer_below_min_value")
    if limit > family.longest_answer:
        return Refusal(
            400,
            f"max_tokens is too large: {limit}. This model supports at most "
            f"{family.longest_answer} completion tokens.",
            "invalid_value",
            "max_tokens",
        )
    return None


def _reasoning(body: Mapping[str, Any]) -> Refusal | None:
    if body.get("max_tokens") is not None:
        return Refusal(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            "unsupported_parameter",
            "max_tokens",
        )
    for name in _SAMPLING:
        if body.get(name) not in (None, _DEFAULTS[name]):
            return Refusal(
                400,
                f"Unsupported value: '{name}' does not support {body[name]} with this model. "
                f"Only the default ({_DEFAULTS[name]}) value is supported.",
                "unsupported_value",
                name,
            )
    for name in _NO_REASONING:
        if body.get(name) is not None:
            return Refusal(
                400,
                f"Unsupported parameter: '{name}' is not supported with this model.",
                "unsupported_parameter",
                name,
            )
    return None


def _plain(body: Mapping[str, Any]) -> Refusal | None:
    for name in ("reasoning_effort", "reasoning"):
        if body.get(name) is not None:
            return Refusal(400, f"Unrecognized request argument supplied: {name}", parameter=name)
    return None


def _messages(body: Mapping[str, Any]) -> Refusal | None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return Refusal(400, "Missing required parameter: 'messages'.", parameter="messages")
    for message in messages:
        if message.get("role") not in _ROLES:
            return Refusal(400, f"Invalid value: '{message.get('role')}'.", "invalid_value")
    refused = _tools(body) or _tool_calls(messages)
    if refused is not None:
        return refused
    wanted = (body.get("response_format") or {}).get("type")
    if wanted == "json_object" and "json" not in str(messages).lower():
        return Refusal(
            400,
            "'messages' must contain the word 'json' in some form, to use 'response_format' of "
            "type 'json_object'.",
            parameter="messages",
        )
    return None


def _tools(body: Mapping[str, Any]) -> Refusal | None:
    """What is wrong with the schemas of tools."""
    tools = body.get("tools")
    if tools is None:
        for name in ("tool_choice", "parallel_tool_calls"):
            if body.get(name) is not None:
                message = f"Invalid value for '{name}': it is only allowed when 'tools' are."
                return Refusal(400, message, parameter=name)
        return None
    if not isinstance(tools, list) or not tools:
        return Refusal(400, "Invalid 'tools': empty array.", "empty_array", "tools")
    for number, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if tool.get("type") != "function" or not isinstance(function, dict):
            message = f"Missing required parameter: 'tools[{number}].function'."
            return Refusal(400, message, "missing_required_parameter", "tools")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(function.get("name"))):
            message = f"Invalid 'tools[{number}].function.name': string does not match pattern."
            return Refusal(400, message, "invalid_value", "tools")
        if function.get("parameters", {"type": "object"}).get("type") != "object":
            message = f"Invalid schema for function '{function['name']}': type must be 'object'."
            return Refusal(400, message, "invalid_function_parameters", "tools")
    return None


def _tool_calls(messages: list[dict[str, Any]]) -> Refusal | None:
    """What is wrong with calls and their results: each call has one, right after it."""
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        where = f"messages.[{number}]"
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                told = "messages with role 'tool' must be a response to a preceding message with "
                return Refusal(400, f"Invalid parameter: {told}'tool_calls'.", parameter=where)
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            told = "An assistant message with 'tool_calls' must be followed by tool messages "
            named = ", ".join(open_calls)
            return Refusal(
                400,
                f"{told}responding to each 'tool_call_id'. The following tool_call_ids did not "
                f"have response messages: {named}",
                parameter=where,
            )
        calls = message.get("tool_calls")
        if calls is None and not isinstance(message.get("content"), str | list):
            told = f"Invalid value for 'content': expected a string, got {message.get('content')}."
            return Refusal(400, told, parameter=where)
        for call in calls or ():
            function = call.get("function", {})
            if not isinstance(function.get("arguments"), str):
                told = "expected a string, but got an object instead."
                return Refusal(400, f"Invalid type for 'arguments': {told}", parameter=where)
            if call.get("type") != "function" or not 0 < len(str(call.get("id", ""))) <= 40:
                return Refusal(400, f"Invalid '{where}.tool_calls'.", "invalid_value", where)
            open_calls.append(call["id"])
        if len(set(open_calls)) < len(open_calls):
            return Refusal(400, "Duplicate tool_call ids.", "invalid_value", where)
    return None
