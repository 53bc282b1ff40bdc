from __future__ import annotations

import http.client
import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from waiting import PATIENCE

from evoprompt.testing import openai_server
from evoprompt.testing.openai_server import (
    Body,
    Drip,
    Drop,
    OpenAIServer,
    Status,
    Text,
    chat_fields,
)


def post(server: OpenAIServer, text: str = "hello") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Authorization": "key"})
    response = connection.getresponse()
    try:
        return response.status, response.read()
    finally:
        connection.close()


def content(reply: tuple[int, bytes]) -> str:
    text: str = json.loads(reply[1])["choices"][0]["message"]["content"]
    return text


def test_the_script_comes_first_and_then_the_default() -> None:
    with OpenAIServer(["one", Text("two")], "rest") as server:
        assert [content(post(server)) for _ in range(4)] == ["one", "two", "rest", "rest"]


def test_an_answer_may_depend_on_the_request() -> None:
    def shout(body: Any) -> str:
        return str(body["messages"][0]["content"]).upper()

    with OpenAIServer([], shout) as server:
        assert content(post(server, "sea")) == "SEA"


def test_requests_are_remembered() -> None:
    with OpenAIServer() as server:
        post(server, "sea")
    [request] = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.prompt == "sea"
    assert request.authorization == "key"


def test_usage_and_finish_reason_are_reported() -> None:
    with OpenAIServer([Text("cut", finish_reason="length", completion_tokens=7)]) as server:
        reply = json.loads(post(server)[1])
    assert reply["choices"][0]["finish_reason"] == "length"
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    assert reply["usage"] == usage | {"completion_tokens_details": {"reasoning_tokens": 0}}


def test_errors_and_other_bodies_are_sent_as_they_are() -> None:
    with OpenAIServer([Status(429, {"Retry-After": "3"}), Body(b"<html>")]) as server:
        assert post(server)[0] == 429
        assert post(server) == (200, b"<html>")


def test_a_dropped_connection_brings_no_answer() -> None:
    with OpenAIServer([Drop()]) as server, pytest.raises(http.client.HTTPException):
        post(server)


def test_a_dripping_answer_comes_whole_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(openai_server, "time", SimpleNamespace(sleep=pauses.append))
    with OpenAIServer([Drip("sea", pieces=4, pause=0.05)]) as server:
        assert content(post(server)) == "sea"
    assert pauses == [0.05] * 4


def test_fields_are_written_as_dspy_reads_them() -> None:
    assert chat_fields(analysis="why", candidates=["a"]) == (
        '[[ ## analysis ## ]]\nwhy\n\n[[ ## candidates ## ]]\n["a"]\n\n[[ ## completed ## ]]'
    )
