from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import httpx
import pytest
from evoprompt_search_qa.retrieval.bm25 import Bm25Index
from evoprompt_search_qa.retrieval.corpus import Corpus
from evoprompt_search_qa.retrieval.index import Hit
from evoprompt_search_qa.retrieval.server import ServerLimits, bind

from evoprompt.errors import InputError

Serve = Callable[..., AbstractContextManager[str]]
PASSAGES = 10


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
        answer = http.post(f"{url}/retrieve", content=body)
    assert answer.status_code == 200
    assert [len(row) for row in answer.json()["result"]] == [0, 1, 0, 1]
    assert "Zürich 🎭" in answer.json()["result"][3][0]["contents"]


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (b"oops", 400, "not JSON"),
        (b'{"queries": ["x"]', 400, "not JSON"),
        (b"[" * 900, 400, "not JSON"),
        (b"\xff", 400, "not JSON"),
        (b"[]", 422, "required: queries"),
        (b"{}", 422, "queries: Field required"),
        (b'{"queries": "x"}', 422, "queries: "),
        (b'{"queries": [1]}', 422, "queries.0: "),
        (b'{"queries": []}', 422, "the number of queries is 0; required: 1 to 4"),
        (b'{"queries": ["a","b","c","d","e"]}', 422, "the number of queries is 5"),
        (b'{"queries": ["%s"]}' % (b"x" * 51), 422, "is 51; required: 0 to 50"),
        (b'{"queries": ["x"], "topk": 0}', 422, "topk is 0; required: 1 to 10"),
        (b'{"queries": ["x"], "topk": 11}', 422, "topk is 11"),
        (b'{"queries": ["x"], "topk": "many"}', 422, "topk: "),
        (b'{"queries": ["%s"]}' % (b"x" * 2000), 413, "more than 1,000 bytes"),
    ],
)
def test_bad_requests_are_refused_with_the_reason(
    serve: Serve, http: httpx.Client, body: bytes, status: int, detail: str
) -> None:
    limits = ServerLimits(body_bytes=1000, queries=4, query_chars=50, topk=10)
    index = SpyIndex(0)
    with serve(index, limits) as url:
        answer = http.post(f"{url}/retrieve", content=body)
        assert answer.status_code == status
        assert detail in answer.json()["detail"]
        assert ask(http, url, "still here").status_code == 200


def test_other_methods_and_paths_are_refused(serve: Serve, http: httpx.Client) -> None:
    with serve(SpyIndex(0)) as url:
        assert http.get(f"{url}/retrieve").status_code == 405
        assert http.post(f"{url}/nothing").status_code == 404


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


HEAD = b"POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def test_clients_that_hang_do_not_hold_up_others_and_are_shown_out(
    serve: Serve, http: httpx.Client
) -> None:
    limits = ServerLimits(body_seconds=0.3)
    with serve(SpyIndex(0), limits) as url:
        silent, halfway, unread = (connect(url) for _ in range(3))
        with silent, halfway, unread:
            halfway.sendall(HEAD + b"Content-Length: 100\r\n\r\n" + b'{"queries"')
            body = json.dumps({"queries": ["x"], "topk": 3}).encode()
            unread.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert ask(http, url, "fine").status_code == 200
            assert halfway.recv(12) == b"HTTP/1.1 408"
            assert ask(http, url, "fine").status_code == 200


def test_clients_that_go_away_do_not_harm_others(serve: Serve, http: httpx.Client) -> None:
    index = SpyIndex(0.2)
    with serve(index) as url:
        for number in range(5):
            with connect(url) as gone:
                body = json.dumps({"queries": [f"gone {number}"]}).encode()
                whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
                gone.sendall(whole if number % 2 else whole[:-5])
        answer = ask(http, url, "still here", topk=1)
        assert answer.status_code == 200
        assert ["still here"] in [batch[-1:] for batch in index.batches]
        assert http.get(f"{url}/health").status_code == 200


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
        ask(http, url)
        text = http.get(f"{url}/metrics").text
    assert 'evoprompt_retriever_requests_total{status="200"} 1.0' in text
    assert 'evoprompt_retriever_requests_total{status="422"} 1.0' in text
    assert "evoprompt_retriever_queries_total 2.0" in text
    assert "evoprompt_retriever_batch_queries_sum 2.0" in text
    assert "evoprompt_retriever_open_requests 0.0" in text


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
