from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import httpx
import pytest
from evoprompt_retrieval.batching import MicroBatcher
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.client import BlockingRetriever, RetrievalClient, RetrievalError
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
            return await asyncio.gather(*map(client.search, queries))

    return asyncio.run(scenario())


def fixed(status: int, content: bytes = b"") -> Respond:
    return lambda queries: httpx.Response(status, content=content)


def test_concurrent_queries_travel_together_and_each_is_asked_once() -> None:
    async def scenario() -> None:
        wire = Wire()
        async with wire.client(connections=1, batch=3) as client:
            found = await asyncio.gather(*map(client.search, ["a", "b", "a", "c", "\ud800d"]))
            assert found == [("about a",), ("about b",), ("about a",), ("about c",), ("about ?d",)]
            assert await client.search("a") == ("about a",)
        assert wire.requests == [["a", "b", "c"], ["?d"]]

    asyncio.run(scenario())


def test_the_answers_that_were_asked_for_last_are_kept_and_no_more() -> None:
    async def scenario() -> None:
        wire = Wire()
        async with wire.client(cached=2) as client:
            for query in ("a", "b", "a", "c", "a", "b"):
                assert await client.search(query) == (f"about {query}",)
        assert wire.requests == [["a"], ["b"], ["c"], ["b"]]

    asyncio.run(scenario())


def test_more_queries_at_once_than_are_kept_all_have_their_answers() -> None:
    queries = [str(number) for number in range(20)]
    assert ask(Wire().client(cached=2), *queries) == [(f"about {query}",) for query in queries]


@pytest.mark.parametrize(
    "trouble",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        fixed(503),
        fixed(429),
        fixed(200, b"<html>"),
        fixed(200, b'{"result": []}'),
        fixed(200, b'{"result": [[{"document": {}}]]}'),
    ],
)
def test_passing_trouble_is_waited_out_with_a_warning_lasting_trouble_is_an_error(
    trouble: Respond | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(trouble, trouble)
    assert ask(wire.client(), "a") == [("about a",)]
    assert wire.requests == [["a"]] * 3
    assert "attempt 2 of 4 follows" in caplog.text
    wire = Wire(*[trouble] * 9)
    with pytest.raises(RetrievalError, match="start it with 'evoprompt retriever serve'"):
        ask(wire.client(attempts=3), "a")
    assert len(wire.requests) == 3


def test_a_refusal_is_not_asked_again_and_not_remembered() -> None:
    async def scenario() -> None:
        wire = Wire(fixed(422, b"too many"))
        async with wire.client() as client:
            with pytest.raises(RetrievalError, match="refused the request with 422: too many"):
                await client.search("a")
            assert await client.search("a") == ("about a",)

    asyncio.run(scenario())


def test_a_failure_is_not_remembered_where_whoever_asked_has_gone() -> None:
    async def scenario() -> tuple[str, ...]:
        refused = asyncio.Event()

        def refuse(queries: list[str]) -> httpx.Response:
            refused.set()
            return fixed(400)(queries)

        async with Wire(refuse).client() as client:
            gone = asyncio.create_task(client.search("a"))
            await asyncio.sleep(0)
            gone.cancel()
            await refused.wait()
            for _ in range(100):  # turns of the loop in which the failure reaches the client
                await asyncio.sleep(0)
            return await client.search("a")

    assert asyncio.run(scenario()) == ("about a",)


@pytest.mark.parametrize("url", ["me:80", "ftp://x", "//"])
def test_what_is_no_address_is_said_at_once(url: str) -> None:
    with pytest.raises(RetrievalError, match="is no address"):
        ask(RetrievalClient(url), "a")


def test_leaving_does_not_wait_for_a_server_that_is_silent() -> None:
    async def scenario() -> None:
        asked = asyncio.Event()

        async def silent(request: httpx.Request) -> httpx.Response:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        client = RetrievalClient("http://server", transport=httpx.MockTransport(silent))
        async with client:
            searching = asyncio.create_task(client.search("a"))
            await asked.wait()
        with pytest.raises(asyncio.CancelledError):
            await searching

    asyncio.run(scenario())


@pytest.fixture
def address(serve: Serve, bm25: Bm25Index) -> Iterator[str]:
    with serve(bm25) as url:
        yield url


@pytest.mark.parametrize("end", ["", "/", "/retrieve"])
def test_it_finds_on_a_real_server_what_the_index_finds_from_many_threads(
    address: str, corpus: Corpus, bm25: Bm25Index, end: str
) -> None:
    queries = ["copper mines", "xylophone", "river Danube"] * 8
    expected = [
        tuple(corpus[hit.row].contents for hit in found) for found in bm25.search(queries, 2)
    ]
    with (
        BlockingRetriever(RetrievalClient(f"{address}{end}", topk=2)) as search,
        ThreadPoolExecutor(8) as pool,
    ):
        assert list(pool.map(search, queries)) == expected


def test_no_task_is_left_where_nothing_is_asked() -> None:
    """An event loop that ends has nothing of a client to destroy, whether or not it was closed."""

    async def double(items: Sequence[int]) -> list[int]:
        await asyncio.sleep(0)
        return [2 * item for item in items]

    async def ask() -> tuple[list[Sequence[int]], int]:
        batcher = MicroBatcher(double, max_items=2, workers=2)
        answers = [await batcher.submit([1])]
        answers += await asyncio.gather(*(batcher.submit([item]) for item in range(5)))
        answers.append(await batcher.submit([7]))
        await asyncio.sleep(0)
        return answers, len(asyncio.all_tasks())

    answers, tasks = asyncio.run(ask())
    assert answers == [[2], [0], [2], [4], [6], [8], [14]]
    assert tasks == 1  # this one
