from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import httpx
import pytest
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import Hit
from evoprompt_retrieval.listening import bind
from evoprompt_retrieval.requests import ServerLimits

from evoprompt.errors import InputError

Serve = Callable[..., AbstractContextManager[str]]
PASSAGES = 10
JSON = {"Content-Type": "application/json"}


class SpyIndex:
    """Remembers the batches it was asked for; slow enough for others to queue up meanwhile."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.batches: list[list[str]] = []
        self._seconds = seconds

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        self.batches.append(list(queries))
        time.sleep(self._seconds)
        if "break" in queries:
            raise RuntimeError("broken on purpose")
        return [
            [Hit(len(query) % PASSAGES, 1.0 - rank) for rank in range(topk)] for query in queries
        ]


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    with httpx.Client(timeout=20, limits=limits, trust_env=False) as client:
        yield client


def ask(http: httpx.Client, url: str, *queries: str, **fields: object) -> httpx.Response:
    return http.post(f"{url}/retrieve", json={"queries": list(queries), **fields})


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_protocol_is_that_of_search_r1(
    serve: Serve, bm25: Bm25Index, corpus: Corpus, http: httpx.Client, count: int
) -> None:
    queries = ["copper mines", "the Black Sea", "xylophone", "comedies", "Danube"][:count]
    with serve(bm25) as url:
        scored = ask(http, url, *queries, topk=2, return_scores=True).json()
        plain = ask(http, url, *queries, topk=2, return_scores=False).json()
        default = ask(http, url, *queries).json()
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
    assert len(default["result"]) == count
    assert [row[: len(found)] for row, found in zip(default["result"], documents, strict=True)] == (
        documents
    )


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
        (b"{}", 422, "missing required field `queries`"),
        (b'{"queries": "x"}', 422, "$.queries"),
        (b'{"queries": [1]}', 422, "$.queries[0]"),
        (b'{"queries": ["a","b","c","d","e"]}', 422, "the number of queries is 5"),
        (b'{"queries": ["x"], "topk": -1}', 422, "topk is -1; required: 1 to 10"),
        (b'{"queries": ["x"], "topk": 11}', 422, "topk is 11"),
        (b'{"queries": ["x","y"], "topk": 9}', 422, "times topk is 18; required: 0 to 15"),
        (b'{"queries": ["x"], "topk": "many"}', 422, "$.topk"),
        (b'{"queries": ["%s"]}' % (b"x" * 2000), 413, "more than 1,000 bytes"),
    ],
)
def test_bad_requests_are_refused_with_the_reason(
    serve: Serve, http: httpx.Client, body: bytes, status: int, detail: str
) -> None:
    limits = ServerLimits(body_bytes=1000, queries=4, topk=10, passages=15)
    index = SpyIndex(0)
    with serve(index, limits) as url:
        answer = http.post(f"{url}/retrieve", content=body, headers=JSON)
        assert answer.status_code == status
        assert detail in answer.json()["detail"]
        assert ask(http, url, "still here").status_code == 200


def test_other_methods_and_paths_are_refused(serve: Serve, http: httpx.Client) -> None:
    with serve(SpyIndex(0)) as url:
        assert http.get(f"{url}/retrieve").status_code == 405
        assert http.post(f"{url}/nothing").status_code == 404
        for path in ("docs", "redoc", "openapi.json"):
            assert http.get(f"{url}/{path}").status_code == 404


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_what_any_web_page_may_post_is_refused(
    serve: Serve, http: httpx.Client, kind: str | None
) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    body = b'{"queries": ["x"]}'
    with serve(SpyIndex(0)) as url:
        answer = http.post(f"{url}/retrieve", content=body, headers=headers)
        assert answer.status_code == 415
        assert "required: application/json" in answer.json()["detail"]
        headers = {"Content-Type": "application/JSON; charset=utf-8"}
        assert http.post(f"{url}/retrieve", content=body, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LocalHost:80", 200),
        ("10.1.2.3:8000", 200),
        ("[::1]:8000", 200),
        ("retriever.cluster:8000", 200),
        ("attacker.example", 421),
        ("127.0.0.1.attacker.example", 421),
        ("", 421),
        ("[", 421),
    ],
)
@pytest.mark.parametrize("path", ["retrieve", "health", "metrics"])
def test_a_name_that_a_stranger_has_pointed_here_is_refused(
    serve: Serve, http: httpx.Client, host: str, status: int, path: str
) -> None:
    with serve(SpyIndex(0), hosts=("Retriever.cluster",)) as url:
        method, body = ("POST", {"queries": ["x"]}) if path == "retrieve" else ("GET", None)
        answer = http.request(method, f"{url}/{path}", json=body, headers={"Host": host})
    assert answer.status_code == status
    if status == 421:
        assert "--allow-host" in answer.json()["detail"]


def test_the_health_check_of_a_balancer_may_name_no_host(serve: Serve) -> None:
    """As HAProxy's does, unless it is told to; a browser names one always."""
    with serve(SpyIndex(0)) as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 10) as asked:
            asked.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
            assert asked.recv(1000).split(b"\r\n")[0].endswith(b" 200 OK")


def test_concurrent_single_queries_are_searched_together(serve: Serve, http: httpx.Client) -> None:
    index = SpyIndex(0.1)
    with serve(index) as url, ThreadPoolExecutor(24) as pool:
        answers = list(
            pool.map(lambda n: ask(http, url, "x" * n, topk=1, return_scores=True), range(24))
        )
    for length, answer in enumerate(answers):
        # Everybody gets the answer to their own question.
        assert answer.json()["result"][0][0]["document"]["id"] == str(length % 10)
    assert sum(len(batch) for batch in index.batches) == 24
    assert len(index.batches) < 12


def test_the_same_query_is_searched_once_a_batch(serve: Serve, http: httpx.Client) -> None:
    index = SpyIndex(0)
    with serve(index) as url:
        answer = ask(http, url, "a", "bb", "a", topk=1)
    assert index.batches == [["a", "bb"]]
    assert [row[0]["id"] for row in answer.json()["result"]] == ["1", "2", "1"]


def test_without_batching_every_request_is_searched_alone(serve: Serve, http: httpx.Client) -> None:
    index = SpyIndex(0.01)
    with serve(index, ServerLimits(batch=1)) as url, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ask(http, url, "x" * n), range(8)))
    assert [len(batch) for batch in index.batches] == [1] * 8


def test_one_topk_does_not_change_another_in_the_same_batch(
    serve: Serve, http: httpx.Client
) -> None:
    with serve(SpyIndex(0.05)) as url, ThreadPoolExecutor(9) as pool:
        answers = list(pool.map(lambda n: ask(http, url, "query", topk=n + 1), range(9)))
    assert [len(answer.json()["result"][0]) for answer in answers] == list(range(1, 10))


def test_a_failing_search_is_a_500_and_the_server_lives_on(
    serve: Serve, http: httpx.Client
) -> None:
    with serve(SpyIndex(0)) as url:
        broken = ask(http, url, "break")
        assert (broken.status_code, "in the server's log" in broken.text) == (500, True)
        assert ask(http, url, "fine").status_code == 200
        assert 'status="500"} 1.0' in http.get(f"{url}/metrics").text


def test_too_many_waiting_are_told_to_come_back(serve: Serve, http: httpx.Client) -> None:
    limits = ServerLimits(waiting=2)
    with serve(SpyIndex(0.5), limits) as url, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda n: ask(http, url, f"q{n}", "more"), range(6)))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 503}
    refused = answers[statuses.index(503)]
    assert refused.headers["Retry-After"] == "1"
    assert "try again later" in refused.json()["detail"]


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def whole(*queries: str, topk: int = 3) -> bytes:
    body = json.dumps({"queries": list(queries), "topk": topk}).encode()
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


HEAD = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SOON = ServerLimits(seconds=1)


def test_clients_that_hang_do_not_hold_up_others_and_are_shown_out(
    serve: Serve, http: httpx.Client
) -> None:
    with serve(SpyIndex(0), SOON) as url:
        halfway, unread = connect(url), connect(url)
        with halfway, unread:
            halfway.sendall(HEAD + b"Content-Length: 100\r\n\r\n" + b'{"queries"')
            unread.sendall(whole("x"))
            assert ask(http, url, "fine").status_code == 200
            assert halfway.recv(12) == b"HTTP/1.1 408"
            assert ask(http, url, "fine").status_code == 200


@pytest.mark.parametrize("sent", [b"", HEAD, whole("x"), whole("x") + HEAD, whole("x") + b"\r\n"])
def test_a_connection_without_a_whole_head_or_a_further_request_is_cut_off(
    serve: Serve, sent: bytes
) -> None:
    with serve(SpyIndex(0), SOON) as url:
        started = time.monotonic()  # the server counts from the connection
        with connect(url) as client:
            client.sendall(sent)
            with contextlib.suppress(ConnectionResetError):
                while client.recv(65_536):
                    pass
        assert 0.9 < time.monotonic() - started < 5


def test_a_head_that_drips_is_cut_off(serve: Serve) -> None:
    with serve(SpyIndex(0), SOON) as url, connect(url) as client:
        client.sendall(b"GET ")
        sent = 0
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < 200:
                time.sleep(0.02)
                client.sendall(b"x")
                sent += 1
        assert 5 < sent < 200


@pytest.mark.parametrize("closing", [b"", b"Connection: close\r\n"])
def test_who_does_not_take_the_answer_is_cut_off(
    serve: Serve, http: httpx.Client, closing: bytes
) -> None:
    limits = ServerLimits(seconds=1, passages=200_000)
    request = whole(*(["x"] * 2000), topk=100).replace(b"Host", closing + b"Host", 1)
    with serve(SpyIndex(0), limits) as url, connect(url) as client:
        client.sendall(request)
        client.recv(1)
        time.sleep(2.5)
        taken = 0
        with contextlib.suppress(ConnectionResetError):
            while chunk := client.recv(1 << 20):
                taken += len(chunk)
        assert 0 < taken < 2000 * 100 * 50  # what the system had taken, not the whole
        assert ask(http, url, "fine").status_code == 200


def test_clients_that_go_away_do_not_harm_others(serve: Serve, http: httpx.Client) -> None:
    index = SpyIndex(0.2)
    with serve(index) as url:
        for number in range(5):
            with connect(url) as gone:
                request = whole(f"gone {number}")
                gone.sendall(request if number % 2 else request[:-5])
        answer = ask(http, url, "still here", topk=1)
        assert answer.status_code == 200
        assert ["still here"] in [batch[-1:] for batch in index.batches]
        assert http.get(f"{url}/health").status_code == 200


def test_nobody_searches_for_a_client_that_has_left(serve: Serve, http: httpx.Client) -> None:
    index = SpyIndex(2.0)
    with serve(index) as url:
        first = connect(url)
        first.sendall(whole("first"))
        while not index.batches:
            time.sleep(0.01)
        for number in range(20):
            with connect(url) as gone:
                gone.sendall(whole(f"gone {number}"))
                time.sleep(0.005)
        answer = ask(http, url, "still here")
        first.close()
        assert answer.status_code == 200
        assert index.batches == [["first"], ["still here"]]
        assert 'status="499"} 20.0' in http.get(f"{url}/metrics").text


def test_a_large_request_lets_small_ones_through(serve: Serve, http: httpx.Client) -> None:
    index = SpyIndex(0.4)
    with serve(index, ServerLimits(batch=2)) as url, ThreadPoolExecutor(1) as pool:
        large = pool.submit(ask, http, url, *(f"large {n}" for n in range(30)), topk=1)
        while not index.batches:
            time.sleep(0.01)
        assert ask(http, url, "small").status_code == 200
        assert len(index.batches) < 6
        result = large.result().json()["result"]
    assert [row[0]["id"] for row in result] == [str((7 if n < 10 else 8) % 10) for n in range(30)]


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"queries": [%s1]}' % (b"1," * 1_000_000),
        b'{"queries": [%s""]}' % (b'"",' * 1_000_000),
        b'{"queries": [], "more": [%s{}]}' % (b"{}," * 1_000_000),
        b'{"queries": ["%s\\ud800"]}' % (b"\\n" * 1_000_000),
    ],
)
def test_nothing_that_is_posted_holds_up_others(
    serve: Serve, http: httpx.Client, hostile: bytes
) -> None:
    with serve(SpyIndex(0)) as url, ThreadPoolExecutor(1) as pool:
        ask(http, url, "warm")
        posting = pool.submit(http.post, f"{url}/retrieve", content=hostile, headers=JSON)
        slowest = 0.0
        while not posting.done():
            started = time.monotonic()
            assert ask(http, url, "other").status_code == 200
            slowest = max(slowest, time.monotonic() - started)
        assert posting.result().status_code in (200, 422)
    assert slowest < 3.0  # with pydantic: 11 s


def test_health_says_what_is_served(
    serve: Serve, bm25: Bm25Index, corpus: Corpus, http: httpx.Client
) -> None:
    with serve(bm25) as url:
        health = http.get(f"{url}/health").json()
    assert health["status"] == "ok"
    assert health["passages"] == len(corpus)
    assert health["fingerprint"] == corpus.manifest.fingerprint


def test_metrics_count_requests_queries_and_batches(serve: Serve, http: httpx.Client) -> None:
    with serve(SpyIndex(0)) as url:
        ask(http, url, "a", "b")
        ask(http, url, "a", topk=-1)
        text = http.get(f"{url}/metrics").text
    assert 'evoprompt_retriever_requests_total{route="/retrieve",status="200"} 1.0' in text
    assert 'evoprompt_retriever_requests_total{route="/retrieve",status="422"} 1.0' in text
    assert "evoprompt_retriever_queries_total 2.0" in text
    assert "evoprompt_retriever_batch_queries_sum 2.0" in text
    assert "evoprompt_retriever_open_requests 1.0" in text  # the one that asks


def test_a_port_in_use_is_an_error() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}"):
            bind("127.0.0.1", port)


def test_an_unknown_host_is_an_error() -> None:
    with pytest.raises(InputError, match="choose another --port or --host"):
        bind("not an address", 0)


def test_clients_are_refused_while_the_index_is_still_built() -> None:
    with bind("127.0.0.1", 0) as bound, pytest.raises(ConnectionRefusedError):
        socket.create_connection(bound.getsockname(), timeout=5)
