"""The gateway's connections: agents that leave, coded bodies, cookies, proxies, idle sockets."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import zlib
from pathlib import Path
from typing import Any

import pytest
from contract_runs import BRIEF
from socket_upstream import (
    CHAT,
    LIMIT,
    QUESTION,
    STREAM,
    Handler,
    SocketUpstream,
    Standing,
    answer,
    ask,
    asking,
    build,
    event,
    local,
    sending,
    serving,
    stream_head,
    whole,
)

from evoprompt import Engine, EvopromptWarning
from evoprompt.gateway import rewriting, server
from evoprompt.gateway.server import SPENDING
from evoprompt.lm import http as bounded_http
from evoprompt.lm.budget import SpendTracker
from evoprompt.lm.connections import proxy_of


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


# ------------------------------------------------------------------------- agents that leave early


def talk_on(upstream: SocketUpstream, connection: socket.socket, number: int) -> bool:
    """Stream until nobody listens."""
    del number
    connection.sendall(stream_head())
    try:
        while True:
            connection.sendall(event({"content": "word "}))
    except OSError:
        upstream.is_left.set()
    return False


def fall_silent(upstream: SocketUpstream, connection: socket.socket, number: int) -> bool:
    """Stream one word, and then nothing."""
    del number
    connection.sendall(stream_head() + event({"content": "word "}))
    upstream.wait_for_close(connection)
    return False


def stop_in_a_call(upstream: SocketUpstream, connection: socket.socket, number: int) -> bool:
    """Stream one word and half a call, and then nothing."""
    del number
    call = {"index": 0, "function": {"name": "look", "arguments": '{"at": "le'}}
    half = event({"content": "word "}) + event({"tool_calls": [call]})
    connection.sendall(stream_head() + half + b"data: {")
    upstream.wait_for_close(connection)
    return False


@pytest.mark.parametrize("handler", [talk_on, fall_silent, stop_in_a_call])
def test_an_agent_that_closes_its_stream_keeps_its_reward_and_the_upstream_stops(
    standing: Standing,
    engine: Engine,
    tmp_path: Path,
    handler: Handler,
) -> None:
    with standing(handler, budget={"calls": 9}) as (gateway, upstream):
        for reward in (1.0, 0.0):
            key = gateway.conversation(QUESTION, "g")
            asked = {**CHAT, "stream": True, "max_tokens": 500}
            with asking(gateway, key, asked) as connection, connection.getresponse() as response:
                assert response.readline().startswith(b"data: ")
            assert upstream.is_left.wait(LIMIT)
            upstream.is_left.clear()
            assert gateway.reward(key, reward) == ""
        assert engine.step == 1
    (told,) = (entry for entry in engine.log if entry["event"] == "step_completed")
    assert told["reward"] == 0.5
    (failure,) = engine.replay.failures(1, engine.rng)
    assert failure.turns[0].action.startswith("word ")
    charge = SpendTracker.from_journal(tmp_path / SPENDING).spent
    assert (charge.calls, charge.output_tokens) == (2, 1000)  # may have been billed in full


def keep_waiting(upstream: SocketUpstream, connection: socket.socket, number: int) -> bool:
    """Answer no request but the first."""
    if number == 0 and len(upstream.requests) == 1:
        connection.sendall(whole(b"", "Connection: close"))
        return False
    upstream.wait_for_close(connection)
    return False


def test_a_request_that_the_agent_gives_up_is_cancelled_and_nobody_is_blamed(
    standing: Standing,
) -> None:
    with standing(keep_waiting) as (gateway, upstream):
        answered = gateway.conversation(QUESTION, "g")
        never = gateway.conversation(QUESTION, "g")
        assert ask(gateway, answered)[0] == 200
        for number, key in enumerate((answered, never), 2):
            with asking(gateway, key, CHAT) as connection:
                while len(upstream.requests) < number:
                    assert connection.sock is not None
            assert upstream.is_left.wait(LIMIT)
            upstream.is_left.clear()
        assert gateway.reward(answered, 1.0) == ""
        with pytest.warns(EvopromptWarning, match="^1 of 2 rollouts of step 1 have no reward"):
            assert "never answered" in gateway.reward(never, 0.0)


def stay_open(upstream: SocketUpstream, connection: socket.socket, number: int) -> bool:
    """Stream a whole answer, and keep the connection open."""
    del number
    connection.sendall(stream_head() + STREAM)
    upstream.wait_for_close(connection)
    return False


def test_an_answer_counts_before_its_end_reaches_the_agent(standing: Standing) -> None:
    with standing(stay_open) as (gateway, _):
        key = gateway.conversation(QUESTION, "g")
        streaming = {**CHAT, "stream": True}
        with (
            asking(gateway, key, streaming) as connection,
            connection.getresponse() as response,
        ):
            while response.readline() != b"data: [DONE]\n":
                pass
            assert gateway.reward(key, 1.0) == ""


def test_a_reward_right_after_a_stream_was_closed_counts(standing: Standing) -> None:
    with standing(fall_silent, rollouts=20) as (gateway, _):
        for _ in range(10):
            key = gateway.conversation(QUESTION, "g")
            streaming = {**CHAT, "stream": True}
            with (
                asking(gateway, key, streaming) as connection,
                connection.getresponse() as response,
            ):
                assert response.readline().startswith(b"data: ")
            assert gateway.reward(key, 1.0) == ""


def test_a_gateway_that_closes_is_no_agent_that_leaves(engine: Engine, tmp_path: Path) -> None:
    with serving(fall_silent) as upstream:
        gateway = build(engine, tmp_path, local(upstream))
        with gateway:
            key = gateway.conversation(QUESTION, "g")
            with asking(gateway, key, {**CHAT, "stream": True}) as connection:
                response = connection.getresponse()
                assert response.readline().startswith(b"data: ")
                gateway.close()
        with build(BRIEF.build(), tmp_path, local(upstream)) as again:
            assert "never answered" in again.reward(key, 1.0)


# ------------------------------------------------------------------------------------ coded bodies


@pytest.mark.parametrize("coding", ["gzip", "deflate", "GZIP"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_compressed_answer_is_read_and_passed_unpacked(
    standing: Standing, coding: str, stream: bool
) -> None:
    pack = zlib.compress if coding == "deflate" else gzip.compress
    plain = STREAM if stream else answer()

    header, packed = f"Content-Encoding: {coding}", pack(plain)
    content = stream_head(header) + packed if stream else whole(packed, header)
    with standing(sending(content)) as (gateway, upstream):
        key = gateway.conversation(QUESTION, "g")
        status, headers, content = ask(gateway, key, {**CHAT, "stream": stream})
        assert (status, content) == (200, plain)
        assert "content-encoding" not in headers
        assert upstream.requests[0][1]["accept-encoding"] == "identity"
        assert gateway.reward(key, 1.0) == ""


def test_a_compressed_refusal_is_the_agents_to_read(standing: Standing) -> None:
    refusal = b'{"error": {"message": "the context has 4096 tokens"}}'
    packed, header = gzip.compress(refusal), "Content-Encoding: gzip"
    with standing(sending(whole(packed, header, status="400 Bad Request"))) as (gateway, _):
        key = gateway.conversation(QUESTION, "g")
        status, headers, content = ask(gateway, key)
        assert (status, content) == (400, refusal)
        assert "content-encoding" not in headers


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("coding", "content"),
    [("gzip", b"no gzip at all" * 9), ("gzip", gzip.compress(answer())[:-20]), ("x", b"\xff" * 9)],
    ids=["no gzip", "gzip cut short", "unknown coding"],  # gzip writes the time into its bytes
)
def test_an_answer_that_cannot_be_unpacked_is_the_upstreams_fault(
    standing: Standing, coding: str, content: bytes, stream: bool
) -> None:
    header = f"Content-Encoding: {coding}"
    sent = stream_head(header) + content if stream else whole(content, header)
    with standing(sending(sent)) as (gateway, _):
        key = gateway.conversation(QUESTION, "g")
        try:
            assert ask(gateway, key, {**CHAT, "stream": stream})[0] == 502
        except (http.client.IncompleteRead, ConnectionError):
            assert stream
        assert gateway.reward(key, 1.0) not in ("", "the model never answered")


answer_each = sending(whole(), keep=True)


def test_a_compressed_request_is_passed_unpacked(standing: Standing) -> None:
    with standing(answer_each) as (gateway, upstream):
        key = gateway.conversation(QUESTION, "g")
        packed = gzip.compress(json.dumps(CHAT).encode())
        assert ask(gateway, key, packed, Content_Encoding="gzip")[0] == 200
        _, headers, body = upstream.requests[0]
        assert json.loads(body)["messages"][1:] == CHAT["messages"]
        assert "content-encoding" not in headers


# ---------------------------------------------------------------------- cookies, headers, proxies


def test_no_agent_sends_the_cookie_of_another_one(engine: Engine, tmp_path: Path) -> None:
    def handler(upstream: SocketUpstream, connection: socket.socket, number: int) -> bool:
        del number
        status = "429 Slow" if len(upstream.requests) == 2 else "200 OK"
        connection.sendall(whole(b"", "Set-Cookie: route=replica-1; Path=/", status=status))
        return True

    with serving(handler) as upstream:
        url = local(upstream, "localhost")  # a jar keeps none of an address in numbers
        with build(engine, tmp_path, url, rollouts=4) as gateway:
            for own in ("", "", "", url):
                ask(gateway, gateway.conversation(QUESTION, "g", upstream=own))
        assert len(upstream.requests) == 4
        assert not any("cookie" in headers for _, headers, _ in upstream.requests)


@pytest.mark.parametrize("size", [9_000, 60_000])
def test_long_headers_pass_in_both_directions(standing: Standing, size: int) -> None:
    handler = sending(whole(b"", f"X-Policy: {'x' * size}"), keep=True)
    with standing(handler) as (gateway, upstream):
        key = gateway.conversation(QUESTION, "g")
        status, headers, _ = ask(gateway, key, X_Baggage="y" * size)
        assert status == 200
        assert len(headers["x-policy"]) == len(upstream.requests[0][1]["x-baggage"]) == size


def test_the_proxy_of_the_environment_is_asked_but_for_hosts_of_no_proxy(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        serving(answer_each) as proxy,
        serving(answer_each, "127.0.0.2") as other,
        serving(answer_each) as upstream,
    ):
        monkeypatch.setenv("HTTP_PROXY", f"http://user:word@127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.2")
        with build(engine, tmp_path, "http://model.invalid/v1", rollouts=4) as gateway:
            for own in ("", local(other, "127.0.0.2"), local(upstream)):
                key = gateway.conversation(QUESTION, "g", upstream=own)
                assert ask(gateway, key)[0] == 200
    ((first, headers, _),) = proxy.requests
    assert first.startswith("POST http://model.invalid/v1/chat/completions ")
    assert headers["proxy-authorization"].startswith("Basic ")
    assert len(other.requests) == len(upstream.requests) == 1


def test_a_proxy_that_cannot_be_used_is_named(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:9")
    with build(engine, tmp_path, "http://model.invalid/v1") as gateway:
        status, _, content = ask(gateway, gateway.conversation(QUESTION, "g"))
    assert status == 502
    assert b"prox" in content


# ------------------------------------------------------------------------------- kept connections


def test_an_idle_connection_is_closed_before_servers_close_it(standing: Standing) -> None:
    idle: list[bool] = []

    def handler(upstream: SocketUpstream, connection: socket.socket, number: int) -> bool:
        del number
        connection.sendall(whole())
        connection.settimeout(10.0)  # aiohttp's own limit is 15 s
        try:
            upstream.wait_for_close(connection)
        except TimeoutError:
            upstream.is_left.set()
            idle.append(True)
        return False

    with standing(handler) as (gateway, upstream):
        assert ask(gateway, gateway.conversation(QUESTION, "g"))[0] == 200
        assert upstream.is_left.wait(LIMIT)
    assert not idle


def test_a_request_on_a_connection_that_closes_unanswered_goes_out_once_more(
    standing: Standing, tmp_path: Path
) -> None:
    def handler(upstream: SocketUpstream, connection: socket.socket, number: int) -> bool:
        if number == 0 and len(upstream.requests) == 2:
            return False
        connection.sendall(whole())
        return True

    with standing(handler, budget={"calls": 9}) as (gateway, upstream):
        key = gateway.conversation(QUESTION, "g")
        assert [ask(gateway, key)[0] for _ in range(2)] == [200, 200]
        assert gateway.reward(key, 1.0) == ""
    assert len(upstream.requests) == 3
    spent = SpendTracker.from_journal(tmp_path / SPENDING).spent
    assert spent.calls == 3  # each may have been billed


def test_a_new_connection_that_closes_unanswered_is_an_error(standing: Standing) -> None:
    with standing(lambda upstream, connection, number: False) as (gateway, upstream):
        assert ask(gateway, gateway.conversation(QUESTION, "g"))[0] == 502
        assert len(upstream.requests) == 1


# ------------------------------------------------------------------------------- work of a request


def test_a_request_is_parsed_once_and_no_account_is_kept_without_a_budget(
    standing: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count the work that took most of the CPU time of a request, instead of the time."""
    num_parsed, proxied_urls = 0, []

    def parse(*arguments: Any, **options: Any) -> rewriting.Body:
        nonlocal num_parsed
        num_parsed += 1
        return body_class(*arguments, **options)

    def read_proxy(url: str) -> str | None:
        proxied_urls.append(url)
        return proxy_of(url)

    body_class = rewriting.Body
    monkeypatch.setattr(server, "Body", parse)
    monkeypatch.setattr(rewriting, "Body", parse)
    monkeypatch.setattr(bounded_http, "proxy_of", read_proxy)
    num_requests = 20
    with standing(answer_each) as (gateway, upstream):
        key = gateway.conversation(QUESTION, "g")
        assert all(ask(gateway, key)[0] == 200 for _ in range(num_requests))
    assert len(upstream.requests) == num_parsed == num_requests
    assert len(proxied_urls) == 1
    assert not (tmp_path / SPENDING).exists()
