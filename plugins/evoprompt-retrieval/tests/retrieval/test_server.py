from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import Hit
from evoprompt_retrieval.requests import RefusedError, ServerLimits, parse
from evoprompt_retrieval.serving import bind
from waiting import PATIENCE, wait_for

from evoprompt.support.errors import InputError

Serve = Callable[..., AbstractContextManager[Any]]
PASSAGES = 10
JSON = {"Content-Type": "application/json"}


class SpyIndex:
    """Remembers the batches it was asked for; where it is held, each waits until it is let."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[str]] = []
        self._let = threading.Semaphore(0)
        if not held:
            self.let(100_000)

    def let(self, searches: int = 100_000) -> None:
        """So many searches may end; by default all."""
        self._let.release(searches)

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        self.batches.append(list(queries))
        assert self._let.acquire(timeout=PATIENCE)
        if "break" in queries:
            raise RuntimeError("broken on purpose")
        return [
            [Hit(len(query) % PASSAGES, 1.0 - rank) for rank in range(topk)] for query in queries
        ]


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    with httpx.Client(timeout=PATIENCE, limits=limits, trust_env=False) as client:
        yield client


def ask(http: httpx.Client, url: str, *queries: str, **fields: object) -> httpx.Response:
    return http.post(f"{url}/retrieve", json={"queries": list(queries), **fields})


def test_the_protocol_is_that_of_search_r1(
    serve: Serve, bm25: Bm25Index, corpus: Corpus, http: httpx.Client
) -> None:
    queries = ["copper mines", "the Black Sea", "xylophone", "comedies", "Danube"]
    with serve(bm25) as url:
        scored = ask(http, url, *queries, topk=2, return_scores=True).json()
        plain = ask(http, url, *queries, topk=2, return_scores=False).json()
        default = ask(http, url, *queries, topk=0).json()  # as no topk at all
        health = http.get(f"{url}/health").json()
    assert health["passages"] == len(corpus)
    assert health["fingerprint"] == corpus.manifest.fingerprint
    assert set(scored) == set(plain) == {"result"}
    hits = bm25.search(queries, 2)
    assert scored["result"] == [
        [
            {
                "document": {"id": corpus[hit.row].id, "contents": corpus[hit.row].contents},
                "score": pytest.approx(hit.score),
            }
            for hit in query_hits
        ]
        for query_hits in hits
    ]
    documents = [[hit["document"] for hit in row] for row in scored["result"]]
    assert plain["result"] == documents
    assert len(default["result"]) == len(queries)
    assert [row[: len(found)] for row, found in zip(default["result"], documents, strict=True)] == (
        documents
    )


@pytest.mark.filterwarnings("ignore:no word of the query")
def test_odd_queries_do_not_fail_the_batch_they_came_in(
    serve: Serve, bm25: Bm25Index, http: httpx.Client
) -> None:
    body = rb'{"queries": ["", "copper", "\ud800 \u0000", "th\u00e9\u00e2tre"], "topk": 1}'
    with serve(bm25) as url:
        answer = http.post(f"{url}/retrieve", content=body, headers=JSON)
    assert answer.status_code == 200
    assert [len(row) for row in answer.json()["result"]] == [0, 1, 0, 1]
    assert "Zürich 🎭" in answer.json()["result"][3][0]["contents"]


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (b"oops", 400, "not JSON"),
        (b'{"queries": ["x"]', 400, "not JSON"),
        (b'{"queries": %s' % (b"[" * 900), 422, "queries[0]"),
        (b'{"x": %s' % (b"[" * 900), 400, "not JSON"),
        (b"\xff", 400, "not JSON"),
        (b"[]", 422, "required: queries"),
        (b'{"queries": [1]}', 422, "$.queries[0]"),
        (b'{"queries": ["a","b","c","d","e"]}', 422, "the number of queries is 5"),
        (b'{"queries": ["x"], "topk": -1}', 422, "topk is -1; required: 1 to 10"),
        (b'{"queries": ["x","y"], "topk": 9}', 422, "times topk is 18; required: 0 to 15"),
        (b'{"queries": ["x"], "topk": "many"}', 422, "$.topk"),
        (b'{"queries": ["%s"]}' % (b"x" * 2000), 413, "more than 1,000 bytes"),
    ],
)
def test_bad_requests_are_refused_with_the_reason(
    serve: Serve, http: httpx.Client, body: bytes, status: int, detail: str
) -> None:
    limits = ServerLimits(body_bytes=1000, queries=4, topk=10, passages=15)
    index = SpyIndex()
    with serve(index, limits) as url:
        answer = http.post(f"{url}/retrieve", content=body, headers=JSON)
        assert answer.status_code == status
        assert detail in answer.json()["detail"]
        assert ask(http, url, "still here").status_code == 200


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_what_any_web_page_may_post_is_refused(
    serve: Serve, http: httpx.Client, kind: str | None
) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    body = b'{"queries": ["x"]}'
    with serve(SpyIndex()) as url:
        answer = http.post(f"{url}/retrieve", content=body, headers=headers)
        assert answer.status_code == 415
        assert "required: application/json" in answer.json()["detail"]
        headers = {"Content-Type": "application/JSON; charset=utf-8"}
        assert http.post(f"{url}/retrieve", content=body, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("retriever.cluster:8000", 200),
        ("attacker.example", 400),
        ("127.0.0.1.attacker.example", 400),
        ("", 400),
    ],
)
@pytest.mark.parametrize("path", ["retrieve", "health"])
def test_a_name_that_a_stranger_has_pointed_here_is_refused(
    serve: Serve, http: httpx.Client, host: str, status: int, path: str
) -> None:
    with serve(SpyIndex(), hosts=("Retriever.cluster",)) as url:
        method, body = ("POST", {"queries": ["x"]}) if path == "retrieve" else ("GET", None)
        answer = http.request(method, f"{url}/{path}", json=body, headers={"Host": host})
    assert answer.status_code == status


def test_a_failing_search_is_a_500_and_the_server_lives_on(
    serve: Serve, http: httpx.Client
) -> None:
    with serve(SpyIndex()) as url:
        broken = ask(http, url, "break")
        assert (broken.status_code, "in the server's log" in broken.text) == (500, True)
        assert ask(http, url, "fine").status_code == 200


def test_too_many_waiting_are_told_to_come_back(serve: Serve, http: httpx.Client) -> None:
    index = SpyIndex(held=True)
    with serve(index, ServerLimits(waiting=2)) as url, ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask, http, url, "searched", "now")]
        wait_for(lambda: index.batches)
        asked += [pool.submit(ask, http, url, f"q{n}", "more") for n in range(5)]
        wait_for(lambda: sum(one.done() for one in asked) == 4)
        index.let()
        answers = [one.result() for one in asked]
    statuses = [answer.status_code for answer in answers]
    assert sorted(statuses) == [200, 200, 503, 503, 503, 503]
    refused = answers[statuses.index(503)]
    assert refused.headers["Retry-After"] == "1"
    assert "try again later" in refused.json()["detail"]


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def whole(*queries: str, topk: int = 3) -> bytes:
    body = json.dumps({"queries": list(queries), "topk": topk}).encode()
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


HEAD = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SOON = ServerLimits(seconds=1)


def test_a_body_that_does_not_come_is_refused(serve: Serve) -> None:
    def refused() -> bool:
        with connect(url) as halfway, contextlib.suppress(ConnectionError):
            halfway.sendall(HEAD + b"Content-Length: 100\r\n\r\n" + b'{"queries"')
            return halfway.recv(12) == b"HTTP/1.1 408"
        return False

    with serve(SpyIndex(), SOON) as url:
        wait_for(refused)


def test_clients_that_go_away_do_not_harm_others(serve: Serve, http: httpx.Client) -> None:
    index = SpyIndex()
    with serve(index) as url:
        for number in range(5):
            with connect(url) as gone:
                request = whole(f"gone {number}")
                gone.sendall(request if number % 2 else request[:-5])
        answer = ask(http, url, "still here", topk=1)
        assert answer.status_code == 200
        assert ["still here"] in [batch[-1:] for batch in index.batches]
        assert http.get(f"{url}/health").status_code == 200


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"queries": [%s1]}' % (b"1," * 1_000_000),
        b'{"queries": ["%s\\ud800"]}' % (b"\\n" * 1_000_000),
    ],
)
def test_what_is_posted_is_read_as_a_whole_not_element_by_element(hostile: bytes) -> None:
    """Of a million elements it makes no million calls, and no million errors (pydantic does)."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        parse(hostile, ServerLimits())
        told = ""
    except RefusedError as error:
        told = error.detail
    finally:
        sys.setprofile(None)
    assert calls < 1_000
    assert len(told) < 300


def test_a_port_in_use_is_an_error() -> None:
    (taken,) = bind("127.0.0.1", 0, 1)
    with taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}"):
            bind("127.0.0.1", port, 2)
    with pytest.raises(InputError, match="choose another --port or --host"):
        bind("not an address", 0, 1)
    (bound,) = bind("127.0.0.1", 0, 1)  # clients are refused while the index is still built
    with bound, pytest.raises(ConnectionRefusedError):
        socket.create_connection(bound.getsockname(), timeout=PATIENCE)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"\ud83c\udfad", "\U0001f3ad"),
        (rb"\ud83c", "\ufffd"),
        (rb"\\\ud83c", "\\\ufffd"),
    ],
)
def test_half_a_character_is_replaced_and_nothing_else(written: bytes, read: str) -> None:
    assert parse(b'{"queries": ["%s"]}' % written, ServerLimits()).queries == [read]


def test_a_whole_training_step_is_answered_as_search_r1_asks_it(
    serve: Serve, bm25: Bm25Index, http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    queries = [f"Who exports copper number {number}?" for number in range(512 * 5)]
    queries += ["copper " + "and so on " * 5000]  # which loses its end
    with serve(bm25) as url:
        found = ask(http, url, *queries, topk=3, return_scores=True).json()["result"]
        assert ask(http, url).json()["result"] == []
    titles = [hits[0]["document"]["contents"].split("\n", 1)[0] for hits in found]
    assert set(titles) <= {'"Copper"', '"Zambia"'}
    assert "1 of 2561 queries had more than 8192 characters" in caplog.text


def test_what_arrives_during_a_search_is_searched_together_and_who_left_is_not_waited_for(
    serve: Serve, http: httpx.Client
) -> None:
    index = SpyIndex(held=True)
    with serve(index) as url, ThreadPoolExecutor(4) as pool:
        first = pool.submit(ask, http, url, "first")
        wait_for(lambda: index.batches)
        later = [pool.submit(ask, http, url, f"q{n}", "same") for n in range(3)]
        wait_for(lambda: sum(one.running() for one in later) == 3)
        index.let()
        assert {one.result().status_code for one in [first, *later]} == {200}
    assert index.batches[0] == ["first"]
    assert sum(batch.count("same") for batch in index.batches[1:]) <= 3
