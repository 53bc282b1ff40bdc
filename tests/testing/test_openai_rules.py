"""The scripted server refuses what OpenAI refuses."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from waiting import PATIENCE

from evoprompt.testing.openai_rules import CHAT, RESPONSES, THINKING_TOKENS
from evoprompt.testing.openai_server import OpenAIServer

MESSAGES = [{"role": "user", "content": "hello"}]


def post(
    model: str, path: str = CHAT, key: str | None = "sk-x", answer: str = "hi", **parameters: Any
) -> tuple[int, dict[str, Any]]:
    said = {"messages": MESSAGES} if path == CHAT else {"input": MESSAGES}
    body = {"model": model, **said, **parameters}
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    with OpenAIServer([], answer) as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)
        connection.request("POST", f"/v1{path}", json.dumps(body), headers)
        response = connection.getresponse()
        found = response.status, json.loads(response.read())
        connection.close()
        assert bool(server.refused) == (found[0] != 200)
    return found


@pytest.mark.parametrize("model", ["gpt-5-mini", "gpt-5.1", "o1", "o3-mini", "o4-mini"])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_tokens": 16_000}, "Use 'max_completion_tokens' instead"),
        ({"temperature": 0.5}, "Only the default (1) value is supported"),
        ({"top_p": 0.9}, "'top_p' does not support 0.9"),
        ({"stop": ["."]}, "'stop' is not supported"),
        ({"max_completion_tokens": 200_000}, "too large"),
        ({"max_completion_tokens": 0}, "below 1"),
        ({"temprature": 1}, "Unknown parameter: 'temprature'"),
    ],
)
def test_reasoning_models_take_no_sampling_parameters(
    model: str, parameters: dict[str, Any], message: str
) -> None:
    status, body = post(model, **parameters)
    assert status == 400
    assert message in body["error"]["message"]


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-4.1-mini", "gpt-5-chat-latest"])
def test_other_models_take_them_but_no_effort(model: str) -> None:
    assert post(model, max_tokens=100, temperature=0.5, top_p=0.9)[0] == 200
    assert post(model, reasoning_effort="low")[0] == 400
    assert post(model, temperature=3)[0] == 400
    assert post(model, max_tokens=100, max_completion_tokens=100)[0] == 400
    assert post(model, max_tokens=100_000)[0] == 400


@pytest.mark.parametrize(("key", "message"), [(None, "provide an API key"), ("none", "Incorrect")])
def test_the_key_must_be_there_and_look_like_one(key: str | None, message: str) -> None:
    status, body = post("gpt-5-mini", key=key)
    assert status == 401
    assert message in body["error"]["message"]


def test_a_reasoning_model_thinks_before_it_answers() -> None:
    _, body = post("gpt-5-mini", max_completion_tokens=THINKING_TOKENS + 1, answer="a" * 40)
    [choice] = body["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] == "aaaa"
    assert body["usage"]["completion_tokens"] == THINKING_TOKENS + 1
    _, body = post("gpt-5-mini", max_completion_tokens=4096, answer="a" * 40)
    assert body["choices"][0]["message"]["content"] == ""


def test_some_models_speak_the_responses_api_alone() -> None:
    assert post("o3-pro", max_completion_tokens=16_000)[0] == 404
    status, body = post("o3-pro", RESPONSES, max_output_tokens=16_000)
    assert status == 200
    assert body["output"][0]["content"][0]["text"] == "hi"
    assert post("o3-pro", RESPONSES, max_output_tokens=3)[0] == 400
    assert post("o3-pro", "/completions")[0] == 404


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"messages": []}, "'messages'"),
        ({"messages": [{"role": "boss", "content": "hello"}]}, "'boss'"),
        ({"response_format": {"type": "json_object"}}, "the word 'json'"),
    ],
)
def test_messages_must_be_messages(parameters: dict[str, Any], message: str) -> None:
    status, body = post("gpt-4o-mini", **parameters)
    assert status == 400
    assert message in body["error"]["message"]


def test_a_server_of_ones_own_takes_anything() -> None:
    assert post("scripted", key=None, max_tokens=1, temperature=9, top_k=5)[0] == 200
