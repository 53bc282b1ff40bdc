"""What strangers, agents and pages of other sites send: nothing of it counts or leads out.

Each attack is a raw request. The gateway answers it in the form of the protocol, never with a page
of its own, and serves the next agent.
"""

from __future__ import annotations

import gzip
import http.client
import json
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from contract_runs import EngineSpec
from socket_upstream import send
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
        with Gateway(EngineSpec(("Be brief.",), evolves=False).build(), settings) as found:
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
