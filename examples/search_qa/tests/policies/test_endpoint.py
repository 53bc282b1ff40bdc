from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from evoprompt_search_qa.policies.base import Dialogue, PolicyError, Sampling
from evoprompt_search_qa.policies.endpoint import EndpointPolicy, messages, with_stop
from evoprompt_search_qa.policies.revision import weights_revision

from evoprompt.testing.openai_server import Answer, Body, Drop, OpenAIServer, Status
from evoprompt.types import Turn

SAMPLING = Sampling(max_tokens=50, stop=("</search>", "</answer>"))
ASKED = Dialogue("Search.", "Who?")


def policy(server: OpenAIServer, attempts: int = 3) -> EndpointPolicy:
    return EndpointPolicy("m", server.url, attempts=attempts, pause=0.01, timeout=5.0)


def test_many_dialogues_are_asked_at_the_same_time_and_answered_in_order() -> None:
    def echo(body: Mapping[str, Any]) -> str:
        return f"<answer> {body['messages'][-1]['content']} </answer>"

    asked = [Dialogue("Search.", f"question {number}") for number in range(20)]
    with OpenAIServer(default=echo) as server:
        replies = policy(server).complete(asked, SAMPLING)
        assert replies == [f"<answer> {one.question} </answer>" for one in asked]
        sent = server.requests[0].body
    assert sent["model"] == "m"
    assert sent["max_tokens"] == 50
    assert sent["temperature"] == 0.0
    assert sent["stop"] == ["</search>", "</answer>"]


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        policy(server).complete([ASKED], SAMPLING)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        policy(server).complete([ASKED], SAMPLING)
        assert [one.authorization for one in server.requests] == ["", "Bearer k"]


@pytest.mark.parametrize("trouble", [Status(429), Status(503), Drop(), Body(b"<html>")])
def test_passing_trouble_is_waited_out(trouble: Answer) -> None:
    with OpenAIServer([trouble, "fine"]) as server:
        assert policy(server).complete([ASKED], SAMPLING) == ["fine"]


@pytest.mark.parametrize(
    ("trouble", "said", "requests"),
    [
        (Status(500), "answered 500", 3),
        (Body(b'{"choices": []}'), "answered garbage", 3),
        (Status(401, message="no such key"), "refused the request with 401.*no such key", 1),
    ],
)
def test_lasting_trouble_costs_only_its_own_reply(
    trouble: Answer, said: str, requests: int
) -> None:
    def answer(body: Mapping[str, Any]) -> Any:
        return trouble if body["messages"][-1]["content"] == "bad" else "fine"

    with OpenAIServer(default=answer) as server:
        replies = policy(server).complete([Dialogue("i", "bad"), ASKED], SAMPLING)
        assert len(server.requests) == requests + 1
    assert replies[1] == "fine"
    assert isinstance(replies[0], PolicyError)
    with pytest.raises(PolicyError, match=said):
        raise replies[0]


@pytest.mark.parametrize(
    ("choice", "reply"),
    [
        ({"message": {"content": "<answer> Ul"}, "finish_reason": "length"}, "<answer> Ul"),
        (
            {"message": {"content": "<answer> Ulm"}, "finish_reason": "stop"},
            "<answer> Ulm</answer>",
        ),
        ({"message": {"content": "<answer> Ulm"}}, "<answer> Ulm</answer>"),
        ({"message": {"content": None}, "finish_reason": "length"}, ""),
        ({"message": {"content": None}, "finish_reason": "stop"}, ""),
    ],
)
def test_a_reply_that_was_cut_is_no_answer_and_no_text_is_an_empty_one(
    choice: dict[str, object], reply: str
) -> None:
    body = json.dumps({"choices": [choice]}).encode()
    with OpenAIServer(default=Body(body)) as server:
        assert policy(server).complete([ASKED], SAMPLING) == [reply]
        assert len(server.requests) == 1


def test_a_server_that_says_nothing_of_its_model_leaves_the_revision_unknown() -> None:
    with OpenAIServer() as server:
        assert policy(server).revision() == ""


@pytest.mark.parametrize(
    ("fields", "revision"),
    [({"root": "org/model"}, "org/model"), ({"created": 17}, "created 17"), ({}, "")],
)
def test_the_revision_is_what_the_server_says(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], revision: str
) -> None:
    models = {"data": [{"id": "other", "root": "x"}, {"id": "m", **fields}]}

    def get(url: str, **_: object) -> httpx.Response:
        return httpx.Response(200, json=models, request=httpx.Request("GET", url))

    monkeypatch.setattr(httpx, "get", get)
    assert EndpointPolicy("m", "http://127.0.0.1:9/v1").revision() == revision


def test_a_model_in_a_folder_of_this_machine_is_told_by_its_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    models = {"data": [{"id": "m", "root": str(tmp_path)}]}

    def get(url: str, **_: object) -> httpx.Response:
        return httpx.Response(200, json=models, request=httpx.Request("GET", url))

    monkeypatch.setattr(httpx, "get", get)
    (tmp_path / "model.safetensors").write_bytes(b"one")
    asked = EndpointPolicy("m", "http://127.0.0.1:9/v1")
    before = asked.revision()
    assert before == asked.revision() == weights_revision(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert asked.revision() != before


def test_a_server_that_is_down_is_named() -> None:
    with OpenAIServer() as server:
        gone = policy(server, attempts=1)
    (reply,) = gone.complete([ASKED], SAMPLING)
    assert isinstance(reply, PolicyError)
    assert "does not answer" in str(reply)


@pytest.mark.parametrize("url", ["localhost:80", "http://127.0.0.1:99999/v1"])
def test_an_address_that_is_none_is_not_tried_again(url: str) -> None:
    (reply,) = EndpointPolicy("m", url).complete([ASKED], SAMPLING)
    assert isinstance(reply, PolicyError)
    assert "is no address" in str(reply)


def test_actions_are_the_assistant_s_and_observations_the_user_s() -> None:
    turns = (Turn("", "\ngiven\n"), Turn("a1", "\no1\n"), Turn("a2"))
    said = messages(Dialogue("Search.", "Who?", turns))
    assert [one["role"] for one in said] == ["system", "user", "assistant", "user", "assistant"]
    assert said[1]["content"] == "\ngiven\n\n\nWho?"
    assert [one["content"] for one in said[2:]] == ["a1", "o1", "a2"]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("<search> x", "<search> x</search>"),
        ("<answer> y", "<answer> y</answer>"),
        ("<search> x </search>", "<search> x </search>"),
        ("<search> x </search> <answer> y", "<search> x </search> <answer> y</answer>"),
        ("nothing", "nothing"),
    ],
)
def test_the_tag_at_which_the_server_stopped_is_put_back(text: str, whole: str) -> None:
    assert with_stop(text, SAMPLING.stop) == whole
