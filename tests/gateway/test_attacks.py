"""What strangers, agents and pages of other sites send: nothing of it counts or leads out.

Each attack is a raw request. The gateway answers it in the form of the protocol, never with a page
of its own, and serves the next agent.
"""

from __future__ import annotations

import gzip
import http.client
import json
import logging
import socket
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from contract_runs import BRIEF
from socket_upstream import LIMIT, event, send, stream_head
from socket_upstream import build as build_gateway
from socket_upstream import serving as serving_socket
from upstream import KEY, MODEL, Reply, Upstream, serving

from evoprompt import Question
from evoprompt.gateway import Gateway, GatewaySettings

QUESTION = Question("q", "What is 2 + 2?", ("4",))
CHAT: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "2 + 2?"}]}
BOMB = gzip.compress(bytes(100_000_000))
TALK = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
OPENED = {"question": {"id": "q", "text": "?"}, "group": "h"}


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.delenv("EVOPROMPT_GATEWAY_TOKEN", raising=False)
        settings = GatewaySettings(
            upstream=upstream.url,
            key="OPENAI_API_KEY",
            directory=tmp_path_factory.mktemp("attacks"),
            rollouts=1000,
            groups=1000,
            budget={"calls": 1_000_000},  # type: ignore[arg-type]
            upstreams=("http://allowed.invalid/v1",),
        )
        with Gateway(BRIEF.build(), settings) as found:
            yield found


@pytest.fixture
def key(gateway: Gateway) -> str:
    return gateway.conversation(QUESTION, "g")


def require_refused(gateway: Gateway, status: int, content: bytes) -> None:
    """Make sure that an attack was refused in the protocol's form, and the next agent is not."""
    assert 400 <= status < 500
    assert json.loads(content)["error"]["message"]
    for secret in (gateway.token, KEY):
        assert secret.encode() not in content
    other = gateway.conversation(QUESTION, "g")
    assert send(gateway, TALK[0], key=other)[0] == 200


@pytest.mark.parametrize("path", ["/conversations", "/conversations/mine/reward"])
@pytest.mark.parametrize(
    "shown", ["", "agent", "Bearer", "none", "null", "undefined", "*", "token", "admin", "../"]
)
def test_an_agent_opens_and_rewards_nothing(
    gateway: Gateway, key: str, path: str, shown: str
) -> None:
    path = path.replace("mine", key)
    given = key if shown == "agent" else shown
    status, content = send(gateway, path, {"reward": 1.0, **OPENED}, given)
    assert status == 401
    require_refused(gateway, status, content)
    assert send(gateway, TALK[0], key=key)[0] == 200


@pytest.mark.parametrize("path", TALK)
@pytest.mark.parametrize("body", [b"", b"{", BOMB, b"x" * 10_000_000], ids=len)
def test_the_body_of_a_stranger_is_not_read(gateway: Gateway, path: str, body: bytes) -> None:
    status, content = send(gateway, path, body, "sk-nobody", headers={"Content-Encoding": "gzip"})
    assert status in (0, 404)
    if status:
        require_refused(gateway, status, content)


@pytest.mark.parametrize("path", ["/conversations", *TALK])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example:80"},
        {"Host": "user@127.0.0.1@evil.example"},
        {"Host": "[::1"},
        {"Host": ""},
        {"Content-Type": ""},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/jsonp"},
    ],
    ids=str,
)
def test_a_page_of_another_site_is_refused(
    gateway: Gateway, key: str, path: str, headers: dict[str, str]
) -> None:
    shown = gateway.token if path == "/conversations" else key
    body = OPENED if path == "/conversations" else CHAT
    status, content = send(gateway, path, body, shown, headers=headers)
    assert status == (415 if "Content-Type" in headers else 403)
    require_refused(gateway, status, content)


@pytest.mark.parametrize(
    "url",
    [
        *("http://evil.example/v1", "http://allowed.invalid", "http://allowed.invalid/v1x"),
        *("http://allowed.invalid/v1/../admin", "http://allowed.invalid/v1/%2e%2e/admin"),
        *("http://allowed.invalid@evil.example/v1", "http://allowed.invalid:80/v1"),
        *("https://allowed.invalid/v1", "file:///etc/passwd", "http://169.254.169.254/latest"),
        *("http://allowed.invalid/v1/\\..\\admin", "http://allowed.invalid/v1?x=1", "x", [], 3),
    ],
    ids=str,
)
def test_a_client_names_no_upstream_but_an_allowed_one(gateway: Gateway, url: object) -> None:
    body = {**OPENED, "upstream": url}
    status, content = send(gateway, "/conversations", body, gateway.token)
    assert status == 400
    assert b"upstream" in content or not url
    require_refused(gateway, status, content)


def test_a_client_may_name_an_upstream_below_an_allowed_one(gateway: Gateway) -> None:
    for url in ("http://allowed.invalid/v1", "http://allowed.invalid/v1/rollouts/7"):
        body = {**OPENED, "upstream": url}
        assert send(gateway, "/conversations", body, gateway.token)[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"null", b"[]", b"3", b'"text"', b"\xff\xfe", b"{" * 50_000, b"[" * 50_000),
        *(b'{"a": NaN', b'{"messages": [], "messages": []}', b'{"messages": {}}'),
        *({}, {"messages": []}, {"messages": [3]}, {"messages": [None]}, {"messages": [[]]}),
        {"messages": [{"role": "system", "content": 3}]},
        {"messages": [{"role": "system", "content": {"type": "text"}}]},
        {"prompt": [1, 2]},
        {"prompt": {"text": "x"}},
    ],
    ids=lambda body: str(body)[:30],
)
@pytest.mark.parametrize("path", TALK[:1])
def test_a_body_without_a_place_is_refused(
    gateway: Gateway, key: str, path: str, body: object
) -> None:
    status, content = send(gateway, path, body, key)
    assert status == 400
    require_refused(gateway, status, content)


@pytest.mark.parametrize("body", [{}, {"input": 3}, {"input": []}, {"input": [3]}, {"input": {}}])
def test_a_response_without_a_place_is_refused(gateway: Gateway, key: str, body: object) -> None:
    require_refused(gateway, *send(gateway, "/v1/responses", body, key))


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", BOMB),
        ("deflate", zlib.compress(bytes(100_000_000))),
        ("gzip", b"no gzip"),
        ("gzip", gzip.compress(json.dumps(CHAT).encode())[:-9]),
        ("br", b"\x0b"),
        ("zstd", b"\x28"),
        ("gzip, gzip", gzip.compress(b"{}")),
    ],
    ids=["bomb", "bomb, deflate", "no gzip", "cut", "br", "zstd", "twice"],
)
def test_a_packed_body_is_bounded(gateway: Gateway, key: str, coding: str, body: bytes) -> None:
    status, content = send(gateway, TALK[0], body, key, headers={"Content-Encoding": coding})
    assert status == 400
    require_refused(gateway, status, content)


@pytest.mark.parametrize(
    ("path", "method"),
    [
        *((path, "GET") for path in ("/", "/metrics", "/v1", "/conversations/mine", "/status")),
        *((path, "GET") for path in ("/v1/../conversations", "/v1/models/../../admin")),
        *((path, "GET") for path in ("/v1/models/%2e%2e/%2e%2e/admin", "/v1/models/a/../b")),
        *((path, "GET") for path in ("/v1/models/..;/admin", "/v1/models/..%5cadmin")),
        *((path, "GET") for path in ("/v1/models/a%2f..%2fb", "/v1/models/", "/v1/models/.")),
        *((path, "POST") for path in ("/v1/%63hat/completions", "/v1/chat%2fcompletions")),
        *((path, "OPTIONS") for path in ("*", "/v1/chat/completions")),
        *((path, "TRACE") for path in ("/v1/models", "/v1/chat/completions")),
        *((path, "DELETE") for path in ("/v1/models/m", "/conversations/mine")),
        *((path, "PUT") for path in ("/v1/chat/completions", "/conversations/mine/reward")),
        ("/v1/chat/completions/../../conversations", "POST"),
        ("//evil.example/v1/chat/completions", "POST"),
        ("/v1/chat/completions/", "POST"),
    ],
)
def test_no_path_leads_elsewhere(
    gateway: Gateway, upstream: Upstream, key: str, path: str, method: str
) -> None:
    before = len(upstream.headers)
    status, content = send(gateway, path.replace("mine", key), CHAT, key, method)
    assert len(upstream.headers) == before
    assert status in (404, 405)
    require_refused(gateway, status, content)


@pytest.mark.parametrize(
    "header",
    [
        *("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-IP"),
        *("X-Goog-Api-Key", "X-Api-Key", "Api-Key", "Cookie", "Proxy-Authorization"),
        *("Ocp-Apim-Subscription-Key", "X-Amz-Security-Token", "Via", "Referer"),
        *("X-Portkey-Api-Key", "Helicone-Auth", "X-Auth-Token", "X-Client-Secret", "apikey"),
    ],
)
def test_a_secret_of_the_agent_stays_here(
    gateway: Gateway, upstream: Upstream, key: str, header: str
) -> None:
    assert send(gateway, TALK[0], CHAT, key, headers={header: "its-own-secret"})[0] == 200
    assert "its-own-secret" not in json.dumps(upstream.headers[-1])


def test_a_header_of_one_connection_stays_here(
    gateway: Gateway, upstream: Upstream, key: str
) -> None:
    headers = {"Connection": "X-Secret", "X-Secret": "its-own-secret"}
    assert send(gateway, TALK[0], CHAT, key, headers=headers)[0] == 200
    assert "its-own-secret" not in json.dumps(upstream.headers[-1])


@pytest.mark.parametrize("status", [400, 404, 422, 429, 500])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_the_gateways_key_comes_back_in_no_error(
    gateway: Gateway, upstream: Upstream, key: str, status: int, kind: str
) -> None:
    raw = json.dumps({"error": {"message": f"the key {KEY} may not do this"}}).encode()
    headers = {"Content-Type": kind, "X-Key": KEY}
    upstream.reply = lambda body: Reply(status=status, raw=raw, headers=headers)
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    shown = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    try:
        with closing(connection):
            connection.request("POST", TALK[0], json.dumps({**CHAT, "stream": True}), shown)
            with connection.getresponse() as response:
                content = response.read()
                assert response.status == status
                assert b"may not do this" in content
                assert KEY not in content.decode() + str(response.getheaders())
    finally:
        upstream.reply = lambda body: Reply()


@pytest.mark.parametrize("limit", [-1, 0, -(10**9), "9", 1.5, True, None, [], {}, 10**400])
@pytest.mark.parametrize("name", ["max_tokens", "n", "best_of", "max_completion_tokens"])
def test_no_number_breaks_the_journal(gateway: Gateway, key: str, name: str, limit: object) -> None:
    send(gateway, TALK[0], {**CHAT, name: limit}, key)
    assert send(gateway, TALK[0], key=key)[0] == 200


def test_a_probe_of_health_needs_no_key(gateway: Gateway) -> None:
    headers = {"Host": "gateway.cluster.local"}
    assert send(gateway, "/health", b"", method="GET", headers=headers)[0] == 200


# ------------------------------------------------------------------------- requests byte by byte


def head_of(gateway: Gateway, key: str, path: str = TALK[0], method: str = "POST") -> bytes:
    """Return the head of a request, except for its length and the empty line."""
    fields = (
        f"Host: 127.0.0.1:{gateway.port}",
        f"Authorization: Bearer {key}",
        "Content-Type: application/json",
    )
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, ""]).encode()


def exchange(gateway: Gateway, content: bytes) -> tuple[int, bytes]:
    """Send bytes, and return the status and the body of the answer."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LIMIT) as connection:
        connection.sendall(content)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, response.read()


SENT = json.dumps(CHAT).encode()
LENGTH = b"Content-Length: %d\r\n" % len(SENT)


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: -5\r\n",
        b"Content-Length: 3\r\n" + LENGTH,
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Content-Type: text/plain\r\n" + LENGTH,
        b"Host: evil.example\r\n" + LENGTH,
        b"X-A: a\x00b\r\n" + LENGTH,
        b"X-A: a\r\n b\r\n" + LENGTH,
        b"X A: a\r\n" + LENGTH,
        b"X-A: " + b"a" * 70_000 + b"\r\n" + LENGTH,
        b"".join(b"X-%d: a\r\n" % number for number in range(10_000)) + LENGTH,
    ],
    ids=lambda fields: repr(fields[:30]),
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(
    gateway: Gateway, key: str, fields: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        status, content = exchange(gateway, head_of(gateway, key) + fields + b"\r\n" + SENT)
    assert status == 400
    assert not caplog.records  # strangers write no log
    require_refused(gateway, status, content)


@pytest.mark.parametrize(
    "content",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/chat/completions HTTP/3.0\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\nHost: 127.0.0.1\n\n",
        b"POST /v1/\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"hello\r\n\r\n",
        b"\x00" * 100 + b"\r\n\r\n",
    ],
    ids=lambda content: repr(content[:20]),
)
def test_another_protocol_is_refused_in_the_form_of_ours(gateway: Gateway, content: bytes) -> None:
    status, came = exchange(gateway, content)
    assert status == 400
    require_refused(gateway, status, came)


def test_a_request_for_another_host_is_refused(gateway: Gateway, key: str) -> None:
    head = head_of(gateway, key, f"http://evil.example{TALK[0]}")
    status, content = exchange(gateway, head + LENGTH + b"\r\n" + SENT)
    assert status == 403
    require_refused(gateway, status, content)


def test_a_body_is_invited_if_its_agent_is_known(gateway: Gateway, key: str) -> None:
    fields = LENGTH + b"Expect: 100-continue\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LIMIT) as connection:
        connection.sendall(head_of(gateway, key) + fields)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(SENT)
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert response.status == 200
        assert response.read()
    status, content = exchange(gateway, head_of(gateway, "sk-nobody") + fields)
    assert status == 404
    require_refused(gateway, status, content)


def test_requests_one_after_another_are_answered_in_order(gateway: Gateway, key: str) -> None:
    request = head_of(gateway, key) + LENGTH + b"\r\n" + SENT
    models = head_of(gateway, key, "/v1/models", "GET") + b"Connection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LIMIT) as connection:
        connection.sendall(request + request + models)
        with connection.makefile("rb") as content:
            came = content.read()
    assert came.count(b"HTTP/1.1 200 OK") == 3
    assert came.index(b'"choices"') < came.index(b'"owned_by"')


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /v1",
        b"POST /v1/chat/completions HTTP/1.1\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: a",
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_head_that_does_not_come_ends_its_connection(
    upstream: Upstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sent: bytes,
    is_first: bool,
) -> None:
    monkeypatch.setattr("evoprompt.gateway.server.HEAD_SECONDS", 0.2)
    engine = BRIEF.build()
    with (
        build_gateway(engine, tmp_path, upstream.url) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port), timeout=LIMIT) as connection,
    ):
        if not is_first:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            response = http.client.HTTPResponse(connection)
            response.begin()
            assert response.read()
        connection.sendall(sent)
        try:
            while connection.recv(100) != b"":
                pass
        except ConnectionError:
            pass


def test_a_head_that_comes_byte_by_byte_ends_its_connection(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evoprompt.gateway.server.HEAD_SECONDS", 0.2)
    engine = BRIEF.build()
    with (
        build_gateway(engine, tmp_path, upstream.url) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port), timeout=LIMIT) as connection,
    ):
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
        with pytest.raises(ConnectionError):
            send_slowly(gateway, connection)


def send_slowly(gateway: Gateway, connection: socket.socket) -> None:
    """Send a byte of a header between any two requests of others."""
    for _ in range(20_000):
        connection.sendall(b"a")
        assert send(gateway, "/health", b"", method="GET")[0] == 200


def test_a_body_that_does_not_come_is_refused(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evoprompt.gateway.server._BODY_SECONDS", 0.2)
    engine = BRIEF.build()
    with build_gateway(engine, tmp_path, upstream.url) as gateway:
        key = gateway.conversation(QUESTION, "g")
        head = head_of(gateway, key) + b"Content-Length: 100\r\n\r\n{"
        status, content = exchange(gateway, head)
        assert status == 400
        require_refused(gateway, status, content)


# --------------------------------------------------------------------------- secrets and own keys


def test_a_secret_in_two_pieces_of_a_stream_stays_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    has_begun = threading.Event()

    def handler(upstream: Any, connection: socket.socket, number: int) -> bool:
        del upstream, number
        first = stream_head() + event({"content": "4"})
        connection.sendall(first + b'data: {"error": {"message": "no ' + KEY[:12].encode())
        assert has_begun.wait(LIMIT)
        connection.sendall(KEY[12:].encode() + b' may"}}\n\n')
        return False

    engine, key = BRIEF.build(), "OPENAI_API_KEY"
    with (
        serving_socket(handler) as upstream,
        build_gateway(engine, tmp_path, f"http://127.0.0.1:{upstream.port}/v1", key=key) as gateway,
    ):
        key = gateway.conversation(QUESTION, "g")
        sent = json.dumps({**CHAT, "stream": True}).encode()
        length = b"Content-Length: %d\r\n\r\n" % len(sent)
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=LIMIT) as connection:
            connection.sendall(head_of(gateway, key) + length + sent)
            came = b""
            while b'"4"' not in came:
                came += connection.recv(2**16)
            has_begun.set()
            with connection.makefile("rb") as content:
                came += content.read()
    assert b"no ***" in came
    assert KEY[12:].encode() not in came


def test_the_gateways_key_comes_back_in_no_header(
    gateway: Gateway, upstream: Upstream, key: str
) -> None:
    upstream.model_headers = {"X-Shown": KEY}
    head = head_of(gateway, key, "/v1/models", "GET") + b"Connection: close\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=LIMIT) as connection:
            connection.sendall(head)
            with connection.makefile("rb") as content:
                came = content.read()
    finally:
        upstream.model_headers = {}
    assert b"X-Shown: ***" in came
    assert KEY.encode() not in came


def test_the_key_of_an_attempt_passes(gateway: Gateway, upstream: Upstream, key: str) -> None:
    headers = {"Idempotency-Key": "attempt-1"}
    assert send(gateway, TALK[0], CHAT, key, headers=headers)[0] == 200
    assert upstream.headers[-1]["Idempotency-Key"] == "attempt-1"


@pytest.mark.parametrize(
    "name",
    [" a ", "a b", "a\r\nX: y", "\u043a\u043b\u044e\u0447", "a" * 513, 5, [], "token"],
)
def test_a_key_that_no_agent_can_show_is_refused(gateway: Gateway, name: object) -> None:
    name = gateway.token if name == "token" else name
    status, content = send(gateway, "/conversations", {**OPENED, "key": name}, gateway.token)
    assert status == 400
    assert b"key" in content
    assert gateway.token.encode() not in content


def test_a_key_with_a_slash_has_its_reward(gateway: Gateway) -> None:
    opened = {**OPENED, "key": "step 1/0".replace(" ", "-")}
    assert send(gateway, "/conversations", opened, gateway.token)[0] == 200
    path = "/conversations/step-1%2F0/reward"
    assert send(gateway, path, {"reward": None}, gateway.token)[0] == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"reward": 1.0, "key": "x"},
        {"reward": 1.0, "self": "x"},
        {"reward": float("nan")},
        {"reward": float("inf")},
        {"reward": 1e200},
        {},
        {"reward": "much"},
        {"reward": 1.0, "metrics": {"a": "much"}},
        {"reward": 1.0, "metrics": {"a": float("nan")}},
        {"reward": 1.0, "metrics": {"\ud800": 1.0}},
        {"reward": 1.0, "feedback": "\ud800"},
        {"reward": 1.0, "feedback": 3},
        {"reward": 1.0, "unknown": 3},
    ],
    ids=str,
)
def test_a_reward_that_cannot_be_read_ends_nothing(
    gateway: Gateway, key: str, fields: dict[str, Any]
) -> None:
    path = f"/conversations/{key}/reward"
    status, content = send(gateway, path, fields, gateway.token)
    assert status == 400
    require_refused(gateway, status, content)
    assert send(gateway, TALK[0], key=key)[0] == 200


def test_a_request_of_a_trainer_has_a_type_and_an_agent_may_leave_it_out(
    gateway: Gateway, key: str
) -> None:
    def send_without_type(path: str, body: object, shown: str) -> tuple[int, bytes]:
        content = json.dumps(body).encode()
        head = head_of(gateway, shown, path).replace(b"Content-Type: application/json\r\n", b"")
        return exchange(gateway, head + b"Content-Length: %d\r\n\r\n" % len(content) + content)

    for path, body in (("/conversations", OPENED), (f"/conversations/{key}/reward", {"reward": 1})):
        status, content = send_without_type(path, body, gateway.token)
        assert status == 415
        require_refused(gateway, status, content)
    assert send_without_type(TALK[0], CHAT, key)[0] == 200
