"""The three protocols, redirects, addresses, and a proposer that hangs."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from contract_runs import EngineSpec
from socket_upstream import (
    CHAT,
    LIMIT,
    QUESTION,
    Handler,
    SocketUpstream,
    Standing,
    answer,
    ask,
    build,
    event,
    local,
    send,
    sending,
    serving,
    stream_head,
    whole,
)

from evoprompt import Engine, EvopromptWarning
from evoprompt.gateway.server import SPENDING
from evoprompt.hosting.binding import Binding
from evoprompt.lm.budget import SpendTracker
from evoprompt.support.storage import LineFile

RESPONSE: dict[str, Any] = {
    "object": "response",
    "status": "completed",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "4"}]}],
    "usage": {"input_tokens": 5, "output_tokens": 1},
}
MESSAGE: dict[str, Any] = {
    "type": "message",
    "content": [{"type": "text", "text": "4"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 5, "output_tokens": 1},
}
ASKED = [{"role": "user", "content": "Why?"}]
SYSTEM = {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-upstream")


def answering(content: bytes, *headers: str, status: str = "200 OK") -> Handler:
    return sending(whole(content, *headers, status=status), keep=True)


@pytest.mark.parametrize("placement", ["append", "replace", "user"])
@pytest.mark.parametrize(
    ("path", "body", "placed"),
    [
        (
            "/v1/responses",
            {"model": "m", "instructions": "Be kind.", "input": "Why?"},
            {
                "append": {"instructions": "Be kind.\n\nBe brief.", "input": "Why?"},
                "replace": {"instructions": "Be brief.", "input": "Why?"},
                "user": {"instructions": "Be kind.", "input": "Be brief.\n\nWhy?"},
            },
        ),
        (
            "/v1/responses",
            {"model": "m", "input": ASKED},
            {
                "append": {"instructions": "Be brief.", "input": ASKED},
                "replace": {"instructions": "Be brief.", "input": ASKED},
                "user": {"input": [{"role": "user", "content": "Be brief.\n\nWhy?"}]},
            },
        ),
        (
            "/v1/responses",
            {"input": [{"role": "developer", "content": "Be kind."}, *ASKED]},
            {
                "append": {
                    "input": [{"role": "developer", "content": "Be kind.\n\nBe brief."}, *ASKED]
                },
                "replace": {"input": [{"role": "developer", "content": "Be brief."}, *ASKED]},
                "user": {
                    "input": [
                        {"role": "developer", "content": "Be kind."},
                        {"role": "user", "content": "Be brief.\n\nWhy?"},
                    ]
                },
            },
        ),
        (
            "/v1/messages",
            {"max_tokens": 9, "system": "Be kind.", "messages": ASKED},
            {
                "append": {"system": "Be kind.\n\nBe brief.", "messages": ASKED},
                "replace": {"system": "Be brief.", "messages": ASKED},
                "user": {
                    "system": "Be kind.",
                    "messages": [{"role": "user", "content": "Be brief.\n\nWhy?"}],
                },
            },
        ),
        (
            "/v1/messages",
            {"max_tokens": 9, "system": [SYSTEM], "messages": ASKED},
            {
                "append": {
                    "system": [SYSTEM, {"type": "text", "text": "\n\nBe brief."}],
                    "messages": ASKED,
                },
                "replace": {"system": "Be brief.", "messages": ASKED},
                "user": {
                    "system": [SYSTEM],
                    "messages": [{"role": "user", "content": "Be brief.\n\nWhy?"}],
                },
            },
        ),
        (
            "/v1/messages",
            {"max_tokens": 9, "messages": ASKED},
            {
                "append": {"system": "Be brief.", "messages": ASKED},
                "replace": {"system": "Be brief.", "messages": ASKED},
                "user": {"messages": [{"role": "user", "content": "Be brief.\n\nWhy?"}]},
            },
        ),
    ],
)
def test_the_instruction_has_its_place_in_each_protocol(
    standing: Standing,
    placement: str,
    path: str,
    body: dict[str, Any],
    placed: dict[str, dict[str, Any]],
) -> None:
    content = json.dumps(RESPONSE if "responses" in path else MESSAGE).encode()
    with standing(answering(content), placement=placement) as (gateway, upstream):
        key = gateway.conversation(QUESTION, "g")
        status, came = send(gateway, path, body, key)
        assert (status, came) == (200, content)
        sent = json.loads(upstream.requests[0][2])
        names = {"instructions", "input", "system", "messages"}
        assert {name: sent[name] for name in sent if name in names} == placed[placement]
        assert {name: sent[name] for name in sent if name not in names} == {
            name: body[name] for name in body if name not in names
        }
        assert gateway.reward(key, 1.0) == ""


@pytest.mark.parametrize(
    ("path", "body", "answers"),
    [
        (
            "/v1/responses",
            {"input": "Why?"},
            [
                {"type": "response.output_text.delta", "delta": "4"},
                {"type": "response.completed", "response": RESPONSE},
            ],
        ),
        (
            "/v1/messages",
            {"max_tokens": 9, "messages": ASKED},
            [
                {"type": "content_block_delta", "index": 0, "delta": {"text": "4"}},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
                {"type": "message_stop"},
            ],
        ),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_stream_of_each_protocol_passes_and_is_read(
    standing: Standing,
    engine: Engine,
    path: str,
    body: dict[str, Any],
    answers: list[dict[str, Any]],
    is_whole: bool,
) -> None:
    written = [
        f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode()
        for one in (answers if is_whole else answers[:1])
    ]
    content = b"".join(written)

    with standing(sending(stream_head() + content)) as (gateway, _):
        key = gateway.conversation(QUESTION, "g")
        status, came = send(gateway, path, {**body, "stream": True}, key)
        if is_whole:
            assert (status, came) == (200, content)
            other = gateway.conversation(QUESTION, "g")
            assert send(gateway, path, body | {"stream": True}, other)[0] == 200
            assert gateway.reward(other, 1.0) == ""
        assert gateway.reward(key, 0.0) == (
            "" if is_whole else "the stream ended before the answer did"
        )
    if is_whole:
        (failure,) = engine.replay.failures(1, engine.rng)
        assert [turn.action for turn in failure.turns] == ["4"]


def test_anthropics_client_shows_its_key_in_a_header_of_its_own(standing: Standing) -> None:
    with standing(answering(json.dumps(MESSAGE).encode()), key="OPENAI_API_KEY") as (
        gateway,
        upstream,
    ):
        key = gateway.conversation(QUESTION, "g")
        body = {"max_tokens": 9, "messages": ASKED}
        assert send(gateway, "/v1/messages", body, headers={"X-Api-Key": key})[0] == 200
        headers = upstream.requests[0][1]
        assert headers["x-api-key"] == "sk-of-the-upstream"


# ------------------------------------------------------------------------ redirects and addresses


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary"])
def test_a_redirect_to_another_host_is_a_bad_gateway(standing: Standing, status: str) -> None:
    handler = answering(b"{}", "Location: http://evil.example/v1", status=status)
    with standing(handler) as (gateway, upstream):
        key = gateway.conversation(QUESTION, "g")
        came, headers, content = ask(gateway, key)
        assert came == 502
        assert "evil.example" not in str(headers) + content.decode()
        assert "another address" in gateway.reward(key, 1.0)
        assert len(upstream.requests) == 1


def test_a_redirect_without_end_is_a_bad_gateway(standing: Standing) -> None:
    handler = answering(b"{}", "Location: /v1/again", status="308 Permanent")
    with standing(handler) as (gateway, upstream):
        assert ask(gateway, gateway.conversation(QUESTION, "g"))[0] == 502
        assert len(upstream.requests) == 4


def test_the_query_of_an_address_stays_at_its_end(engine: Engine, tmp_path: Path) -> None:
    with serving(answering(answer())) as upstream:
        url = f"{local(upstream)}/x?api-version=2026-01-01"
        with build(engine, tmp_path, url) as gateway:
            key = gateway.conversation(QUESTION, "g")
            assert send(gateway, "/v1/chat/completions?a=1", CHAT, key)[0] == 200
    first = "POST /v1/x/chat/completions?api-version=2026-01-01&a=1 HTTP/1.1"
    assert upstream.requests[0][0] == first


# ------------------------------------------------------------------------------ money and sizes


@pytest.mark.parametrize(
    ("asked", "comes_back"), [({}, False), ({"stream_options": {"include_usage": True}}, True)]
)
def test_a_budget_asks_for_the_usage_that_the_agent_does_not_want(
    standing: Standing, tmp_path: Path, asked: dict[str, Any], comes_back: bool
) -> None:
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 1}}\n\n'
    content = event({"content": "4"}) + event({}, "stop")

    def handler(upstream: SocketUpstream, connection: Any, number: int) -> bool:
        del number
        is_asked = json.loads(upstream.requests[-1][2])["stream_options"]["include_usage"]
        connection.sendall(stream_head() + content + usage * is_asked + b"data: [DONE]\n\n")
        return False

    with standing(handler, budget={"tokens": 100_000}) as (gateway, _):
        key = gateway.conversation(QUESTION, "g")
        status, came = send(gateway, "/v1/chat/completions", {**CHAT, "stream": True, **asked}, key)
        assert (status, came) == (200, content + usage * comes_back + b"data: [DONE]\n\n")
    assert SpendTracker.from_journal(tmp_path / SPENDING).spent.tokens == 31


@pytest.mark.parametrize(
    ("status", "code"), [("402 Payment Required", "x"), ("429 Slow", "insufficient_quota")]
)
def test_an_empty_account_ends_at_the_first_answer_that_says_so(
    standing: Standing, status: str, code: str
) -> None:
    content = json.dumps({"error": {"message": "you have no credits", "code": code}}).encode()
    with standing(answering(content, status=status)) as (gateway, _):
        came, _, said = ask(gateway, gateway.conversation(QUESTION, "g"))
        assert came == 402  # no client tries again
        assert b"no credits" in said


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_without_end_is_not_kept_in_memory(standing: Standing, stream: bool) -> None:
    sent = threading.Event()
    kind = b"text/event-stream" if stream else b"application/json"

    def handler(upstream: SocketUpstream, connection: Any, number: int) -> bool:
        del upstream, number
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n\r\n")
        try:
            while True:
                connection.sendall(b"x" * 2**20)
        except OSError:
            sent.set()
        return False

    with standing(handler) as (gateway, _):
        key = gateway.conversation(QUESTION, "g")
        status, _ = send(gateway, "/v1/chat/completions", {**CHAT, "stream": stream}, key)
        assert status == (0 if stream else 502)
        assert sent.wait(LIMIT)
        assert "bytes" in gateway.reward(key, 1.0)


# ----------------------------------------------------------------------- proposers and full disks


def test_a_proposer_that_hangs_stops_no_agent(
    standing: Standing, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, free = threading.Event(), threading.Event()
    begin = Binding.begin

    def hang(self: Binding, *given: Any, **more: Any) -> Any:
        begun.set()
        assert free.wait(LIMIT)
        return begin(self, *given, **more)

    monkeypatch.setattr(Binding, "begin", hang)
    with standing(answering(answer())) as (gateway, _):
        waiting = gateway.conversation(QUESTION, "h")
        assert ask(gateway, waiting)[0] == 200
        keys = [gateway.conversation(QUESTION, "g") for _ in range(2)]
        for key in keys:
            assert ask(gateway, key)[0] == 200
        gateway.reward(keys[0], 1.0)
        path = f"/conversations/{keys[1]}/reward"
        arguments = (gateway, path, {"reward": 1.0}, gateway.token)
        rewarding = threading.Thread(target=send, args=arguments)
        rewarding.start()
        assert begun.wait(LIMIT)
        for _ in range(3):
            assert ask(gateway, waiting)[0] == 200  # its group has candidates
        opened = {"question": {"id": "q", "text": "?"}, "group": "i"}
        status, content = send(gateway, "/conversations", opened, gateway.token)
        assert status == 200
        other = json.loads(content)["key"]
        served: list[int] = []
        asking = threading.Thread(target=lambda: served.append(ask(gateway, other)[0]))
        asking.start()
        assert send(gateway, "/health", b"", method="GET")[0] == 200
        assert not served
        free.set()
        for thread in (rewarding, asking):
            thread.join(LIMIT)
        assert served == [200]
        assert engine.step == 1


def test_steps_that_end_while_the_engine_evolves_follow_and_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that is left while it evolves and its successor know the same."""
    begun, free = threading.Event(), threading.Event()
    begin = Binding.begin

    def hang(self: Binding, *given: Any, **more: Any) -> Any:
        begun.set()
        assert free.wait(LIMIT)
        return begin(self, *given, **more)

    states = []
    for is_slow in (True, False):
        with monkeypatch.context() as patch:
            if is_slow:
                patch.setattr(Binding, "begin", hang)
            spec = EngineSpec(("Be brief.", "Be kind."), evolves=False)
            with build(spec.build(), tmp_path / str(is_slow), "http://127.0.0.1:9/v1") as gateway:
                keys = [
                    gateway.conversation(QUESTION, group, f"{group}{number}")
                    for group in ("a", "b")
                    for number in range(2)
                ]
                for key in keys:
                    with gateway.calling(key):
                        pass
                    gateway.record_answer(key, "", "4")
                gateway.reward(keys[0], 1.0)
                ending = threading.Thread(target=gateway.reward, args=(keys[1], 0.0))
                ending.start()
                if is_slow:
                    assert begun.wait(LIMIT)
                else:
                    ending.join(LIMIT)
                for key in keys[2:]:
                    gateway.reward(key, 1.0)
                free.set()
                ending.join(LIMIT)
                assert gateway.engine.step == 2
                states.append(gateway.engine.state_dict())
    assert states[0] == states[1]


def test_on_a_full_disk_nothing_is_asked_and_the_next_request_may_work(
    standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with standing(answering(answer())) as (gateway, upstream):
        key = gateway.conversation(QUESTION, "g")
        with monkeypatch.context() as patch:
            patch.setattr(LineFile, "append", fail)
            patch.setattr(Path, "write_bytes", fail)
            for _ in range(2):
                status, _, content = ask(gateway, key)
                assert status == 503
                assert json.loads(content)["error"]["message"].count("No space left") == 1
        assert not upstream.requests
        assert ask(gateway, key)[0] == 200
        assert gateway.reward(key, 1.0) == ""


def test_an_error_of_ours_is_a_sentence(
    standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a mistake")

    with standing(answering(answer())) as (gateway, _):
        key = gateway.conversation(QUESTION, "g")
        monkeypatch.setattr(gateway, "must_wait", fail)
        status, headers, content = ask(gateway, key)
        assert (status, headers["content-type"].split(";")[0]) == (500, "application/json")
        assert "a mistake" in json.loads(content)["error"]["message"]


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
HALF = {"type": "function", "function": {"name": "half \ud83d"}}


def test_the_next_gateway_knows_the_first_chat_and_its_tools(
    engine: Engine, tmp_path: Path
) -> None:
    """It may replay steps whose rollouts are counted by tool."""
    tools = [TOOL, "no schema", HALF, {"name": "x" * 10**5}]
    with (
        serving(answering(answer())) as upstream,
        build(engine, tmp_path / "first", local(upstream)) as gateway,
    ):
        key = gateway.conversation(QUESTION, "g")
        with pytest.warns(EvopromptWarning, match="2 of 4 tools"):
            assert send(gateway, "/v1/chat/completions", {**CHAT, "tools": tools}, key)[0] == 200
        context = engine.setting
        half = {**HALF, "function": {"name": "half ?"}}
        assert [*context.tools] == [TOOL, half]
        shutil.copytree(tmp_path / "first", tmp_path / "killed")  # its journal, as a kill leaves it
    for folder in ("killed", "first"):
        successor = EngineSpec(("Be brief.", "Be kind."), evolves=False).build()
        with build(successor, tmp_path / folder, "http://127.0.0.1:9/v1"):
            assert successor.setting == context
