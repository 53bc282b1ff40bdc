"""The scripted server answers as it is told, and refuses what OpenAI refuses."""

from __future__ import annotations

import http.client
import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from strict_openai import CHAT, RESPONSES, THINKING_TOKENS, StrictServer
from waiting import PATIENCE

from evoprompt.testing import openai_server
from evoprompt.testing.openai_server import Answer, Body, Drop, OpenAIServer, Status, Text


def post(
    server: OpenAIServer,
    model: str = "m",
    path: str = CHAT,
    key: str | None = "sk-x",
    text: str = "hello",
    **parameters: Any,
) -> tuple[int, bytes]:
    said = {"messages" if path == CHAT else "input": [{"role": "user", "content": text}]}
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    body = {"model": model, **said, **parameters}
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)
    connection.request("POST", f"/v1{path}", json.dumps(body), headers)
    response = connection.getresponse()
    try:
        return response.status, response.read()
    finally:
        connection.close()


def content(reply: tuple[int, bytes]) -> str:
    text: str = json.loads(reply[1])["choices"][0]["message"]["content"]
    return text


def asked(model: str, answer: str = "hi", **given: Any) -> tuple[int, dict[str, Any]]:
    with StrictServer([], answer) as server:
        status, body = post(server, model, **given)
        assert bool(server.refused) == (status != 200)
    return status, json.loads(body)


def test_the_script_comes_first_then_the_default_and_requests_are_remembered() -> None:
    def shout(body: Any) -> str:
        return str(body["messages"][0]["content"]).upper()

    with OpenAIServer(["one", Text("two")], shout) as server:
        assert [content(post(server, text="sea")) for _ in range(4)] == ["one", "two", "SEA", "SEA"]
    request = server.requests[0]
    assert (request.path, request.prompt) == (f"/v1{CHAT}", "sea")
    assert request.authorization == "Bearer sk-x"


def test_it_fails_as_servers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(openai_server, "time", SimpleNamespace(sleep=pauses.append))
    script: list[Answer] = [Status(429, {"Retry-After": "3"}), Body(b"<html>"), Drop()]
    with OpenAIServer([*script, Text("sea", seconds=0.05, pieces=4)]) as server:
        assert post(server)[0] == 429
        assert post(server) == (200, b"<html>")
        with pytest.raises(http.client.HTTPException):
            post(server)
        pauses.clear()
        assert content(post(server)) == "sea"
    assert pauses == [0.05] * 4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_tokens": 16_000}, "Use 'max_completion_tokens' instead"),
        ({"temperature": 0.5}, "Only the default (1) value is supported"),
        ({"temprature": 1}, "Unknown parameter: 'temprature'"),
        ({"messages": [{"role": "tool", "tool_call_id": "c", "content": "6"}]}, "'tool_calls'"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "match pattern"),
        ({"key": "none"}, "Incorrect"),
    ],
)
def test_what_a_reasoning_model_does_not_take_is_refused(
    parameters: dict[str, Any], message: str
) -> None:
    status, body = asked("gpt-5-mini", **parameters)
    assert status == (401 if "key" in parameters else 400)
    assert message in body["error"]["message"]


def test_a_reasoning_model_thinks_before_it_answers() -> None:
    _, body = asked("gpt-5-mini", "a" * 40, max_completion_tokens=THINKING_TOKENS + 1)
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["choices"][0]["message"]["content"] == "aaaa"
    assert body["usage"]["completion_tokens"] == THINKING_TOKENS + 1


def test_some_models_speak_the_responses_api_alone() -> None:
    assert asked("o3-pro", max_completion_tokens=16_000)[0] == 404
    status, body = asked("o3-pro", path=RESPONSES, max_output_tokens=16_000)
    assert status == 200
    assert body["output"][0]["content"][0]["text"] == "hi"
    assert asked("o3-pro", path=RESPONSES, max_output_tokens=3)[0] == 400
    assert asked("o3-pro", path="/completions")[0] == 404
