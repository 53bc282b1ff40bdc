"""The scripted server answers as it is told, and refuses what OpenAI refuses."""

from __future__ import annotations

import http.client
import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from strict_openai import CHAT
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
