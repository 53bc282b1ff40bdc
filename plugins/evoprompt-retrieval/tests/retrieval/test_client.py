from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import httpx
import pytest
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.client import (
    BlockingRetriever,
    RetrievalClient,
    RetrievalError,
)
from evoprompt_retrieval.corpus import Corpus

Serve = Callable[..., AbstractContextManager[str]]
Respond = Callable[[list[str]], httpx.Response]


def hits(queries: list[str]) -> httpx.Response:
    """What a working server answers."""
    result = [
        [{"document": {"id": "0", "contents": f"about {query}"}, "score": 1.0}] for query in queries
    ]
    return httpx.Response(200, json={"result": result})


class Wire:
    """Stands in for the network: remembers requests and answers as told, in turn, then well."""

    def __init__(self, *answers: Respond | Exception) -> None:
        self.requests: list[list[str]] = []
        self._answers = list(answers)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        assert request.url.path == "/retrieve"
        assert body["return_scores"] is True
        self.requests.append(body["queries"])
        await asyncio.sleep(0.01)
        answer = self._answers.pop(0) if self._answers else hits
        if isinstance(answer, Exception):
            raise answer
        return answer(body["queries"])

    def client(self, **settings: int) -> RetrievalClient:
        return RetrievalClient(
            "http://server", transport=httpx.MockTransport(self), pause=0.001, **settings
        )


def ask(client: RetrievalClient, *queries: str) -> list[tuple[str, ...]]:
    async def scenario() -> list[tuple[str, ...]]:
        async with client:
            return await client.search_many(queries)

    return asyncio.run(scenario())


def fixed(status: int, content: bytes = b"") -> Respond:
    return lambda queries: httpx.Response(status, content=content)


@pytest.mark.parametrize("url", ["http://a:1", "http://a:1/", "http://a:1/retrieve"])
def test_the_address_may_name_the_server_or_the_endpoint(url: str) -> None:
    assert RetrievalClient(url).url == "http://a:1/retrieve"


def test_concurrent_queries_travel_together_and_each_only_once() -> None:
    wire = Wire()
    found = ask(wire.client(connections=1), "a", "b", "a", "c", "b")
    assert found == [("about a",), ("about b",), ("about a",), ("about c",), ("about b",)]
    assert wire.requests == [["a", "b", "c"]]


def test_no_request_holds_more_than_a_batch() -> None:
    wire = Wire()
    ask(wire.client(batch=2), *"abcde")
    assert sorted(map(len, wire.requests)) == [1, 2, 2]


def test_asking_again_is_answered_from_memory() -> None:
    async def scenario() -> None:
        wire = Wire()
        async with wire.client() as client:
            first = await client.search("a")
            assert await client.search("a") == first
        assert wire.requests == [["a"]]

    asyncio.run(scenario())


def test_odd_queries_are_cut_and_cleaned() -> None:
    wire = Wire()
    ask(wire.client(query_chars=5), "123456789", "\ud800x")
    assert wire.requests == [["12345", "?x"]]


def test_a_second_attempt_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire(httpx.ReadError("reset by peer"))
    assert ask(wire.client(), "a") == [("about a",)]
    assert [record.getMessage() for record in caplog.records if "evoprompt" in record.name] == [
        "the search server http://server/retrieve does not answer (reset by peer); "
        "attempt 2 of 4 follows"
    ]


@pytest.mark.parametrize(
    "trouble",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        fixed(500, b"oops"),
        fixed(503),
        fixed(429),
        fixed(200, b"<html>"),
        fixed(200, b'{"result": []}'),
        fixed(200, b'{"result": [[{"document": {}}]]}'),
        fixed(200, b'{"answers": 1}'),
    ],
)
def test_passing_trouble_is_waited_out(trouble: Respond | Exception) -> None:
    wire = Wire(trouble, trouble)
    assert ask(wire.client(), "a") == [("about a",)]
    assert wire.requests == [["a"]] * 3


@pytest.mark.parametrize(
    ("trouble", "what"),
    [
        (httpx.ConnectError("refused"), r"does not answer \(refused\), tried 3 times"),
        (fixed(502, b"bad gateway"), "answered 502: bad gateway"),
        (fixed(200, b"<html>"), "answered garbage: '<html>'"),
        (fixed(200, b'{"result": [[], []]}'), "answered 2 of 1 queries"),
    ],
)
def test_lasting_trouble_is_an_error_after_a_bounded_number_of_attempts(
    trouble: Respond | Exception, what: str
) -> None:
    wire = Wire(*[trouble] * 9)
    with pytest.raises(RetrievalError, match=what):
        ask(wire.client(attempts=3), "a")
    assert len(wire.requests) == 3


def test_a_refusal_is_not_repeated() -> None:
    wire = Wire(fixed(422, b"topk is 0"))
    with pytest.raises(RetrievalError, match="refused the request with 422: topk is 0"):
        ask(wire.client(), "a")
    assert len(wire.requests) == 1


def test_a_failure_is_not_remembered() -> None:
    async def scenario() -> None:
        wire = Wire(fixed(422))
        async with wire.client() as client:
            with pytest.raises(RetrievalError):
                await client.search("a")
            assert await client.search("a") == ("about a",)

    asyncio.run(scenario())


def test_a_caller_that_gives_up_does_not_take_the_answer_from_others() -> None:
    async def scenario() -> None:
        wire = Wire()
        async with wire.client() as client:
            gone, stays = (asyncio.create_task(client.search("a")) for _ in range(2))
            await asyncio.sleep(0)
            gone.cancel()
            assert await stays == ("about a",)
        assert wire.requests == [["a"]]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "url", ["nowhere", "127.0.0.1:8000", "http://", "http://a:99999", "http://[1"]
)
def test_what_is_no_address_is_an_error_at_once(url: str) -> None:
    with pytest.raises(RetrievalError, match=r"is no address \(.+\); required: a server"):
        ask(RetrievalClient(url), "a")


@pytest.fixture
def address(serve: Serve, bm25: Bm25Index) -> Iterator[str]:
    with serve(bm25) as url:
        yield url


def test_it_understands_the_real_server(address: str, corpus: Corpus, bm25: Bm25Index) -> None:
    queries = ["copper mines", "", "xylophone", "river Danube"]
    expected = [
        tuple(corpus[hit.row].contents for hit in found) for found in bm25.search(queries, 2)
    ]
    assert ask(RetrievalClient(address, topk=2), *queries) == expected


def test_code_that_is_not_asynchronous_can_search_from_many_threads(
    address: str, corpus: Corpus, bm25: Bm25Index
) -> None:
    queries = ["copper", "Danube", "comedies", "spire"] * 8
    with (
        BlockingRetriever(RetrievalClient(address, topk=1)) as search,
        ThreadPoolExecutor(8) as pool,
    ):
        found = list(pool.map(search, queries))
        assert search.many(queries) == found
    best = [bm25.search([query], 1)[0][0] for query in queries]
    assert found == [(corpus[hit.row].contents,) for hit in best]


def test_a_blocking_search_raises_the_same_error() -> None:
    wire = Wire(fixed(404))
    with BlockingRetriever(wire.client()) as search, pytest.raises(RetrievalError, match="404"):
        search("a")
