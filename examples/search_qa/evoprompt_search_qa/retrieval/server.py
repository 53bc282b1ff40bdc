"""The search server: Search-R1's protocol, so that every client of it works unchanged.

``POST /retrieve`` with ``{"queries": [...], "topk": 3, "return_scores": true}`` answers
``{"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}``, one list a query; without
``return_scores`` the inner lists hold the documents themselves. A query without a word is answered
by an empty list, because one such query must not fail the batch it came in.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
import socket
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from evoprompt.errors import InputError
from evoprompt_search_qa.retrieval.batching import MicroBatcher, OverloadedError
from evoprompt_search_qa.retrieval.corpus import Corpus
from evoprompt_search_qa.retrieval.index import SearchIndex
from evoprompt_search_qa.retrieval.metrics import ServerMetrics

DEFAULT_TOPK = 3
_LOG = logging.getLogger(__name__)
_KEEP_ALIVE = 60
BACKLOG = 4096


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a client may ask for, and how much is done at a time.

    Attributes:
        body_bytes: most bytes of a request.
        body_seconds: longest time for a request to arrive.
        queries: most queries of a request; Search-R1 sends those of a whole training batch.
        query_chars: most characters of a query.
        topk: most passages of a query.
        batch: most queries searched at a time; 1 turns batching off.
        waiting: most queries that wait before further ones are refused.
    """

    body_bytes: int = 32 * 1024 * 1024
    body_seconds: float = 30.0
    queries: int = 8192
    query_chars: int = 8192
    topk: int = 100
    batch: int = 512
    waiting: int = 65_536


class RetrieveRequest(BaseModel):
    """The body of ``POST /retrieve``.

    Attributes:
        queries: what to search for.
        topk: passages a query; 3 by default.
        return_scores: whether every passage comes with its score.
    """

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    document: dict[str, str]
    score: float


class Searcher:
    """Answers queries over one index, many at a time, in a thread beside the event loop.

    Args:
        corpus: holds the passages.
        index: finds their rows.
        limits: of a batch.
        metrics: counts batches.
    """

    def __init__(
        self, corpus: Corpus, index: SearchIndex, limits: ServerLimits, metrics: ServerMetrics
    ) -> None:
        self._corpus = corpus
        self._index = index
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="search")
        self.batcher = MicroBatcher[tuple[str, int], Sequence[_Found]](
            self._search_beside, max_items=limits.batch, max_waiting=limits.waiting
        )

    def close(self) -> None:
        """Ends the thread; what it does now is finished."""
        self._thread.shutdown(cancel_futures=True)

    async def _search_beside(self, items: Sequence[tuple[str, int]]) -> Sequence[Sequence[_Found]]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._search, items)

    def _search(self, items: Sequence[tuple[str, int]]) -> Sequence[Sequence[_Found]]:
        started = time.perf_counter()
        found: dict[tuple[str, int], Sequence[_Found]] = {}
        for topk in sorted({topk for _, topk in items}):
            queries = list(dict.fromkeys(query for query, wanted in items if wanted == topk))
            hits = self._index.search(queries, topk)
            for query, row_hits in zip(queries, hits, strict=True):
                found[query, topk] = [_Found(self._document(row), s) for row, s in row_hits]
        self._metrics.searched(len(items), time.perf_counter() - started)
        return [found[item] for item in items]

    def _document(self, row: int) -> dict[str, str]:
        passage = self._corpus[row]
        return {"id": passage.id, "contents": passage.contents}


def create_app(
    corpus: Corpus, index: SearchIndex, name: str, limits: ServerLimits | None = None
) -> FastAPI:
    """The web application that searches ``index``; ``name`` says in ``/health`` what it is."""
    limits = limits or ServerLimits()
    metrics = ServerMetrics()
    searcher = Searcher(corpus, index, limits, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with searcher.batcher:
            yield
        searcher.close()

    app = FastAPI(title="evoprompt search-qa retriever", lifespan=lifespan)

    schema = {"application/json": {"schema": RetrieveRequest.model_json_schema()}}

    @app.post("/retrieve", openapi_extra={"requestBody": {"content": schema, "required": True}})
    async def retrieve(request: Request) -> Response:
        with metrics.request() as outcome:
            try:
                wanted = _parse(await _read(request, limits), limits)
                topk = DEFAULT_TOPK if wanted.topk is None else wanted.topk
                items = [(_clean(query), topk) for query in wanted.queries]
                found = await searcher.batcher.submit(items)
            except HTTPException as error:
                outcome.status = error.status_code
                raise
            except OverloadedError as error:
                outcome.status = 503
                detail = f"{error}; required: at most {limits.waiting}; try again later"
                raise HTTPException(503, detail, {"Retry-After": "1"}) from error
            except Exception as error:
                _LOG.exception("a search failed")
                detail = "the search failed; the reason is in the server's log"
                raise HTTPException(500, detail) from error
            outcome.status, outcome.queries = 200, len(items)
            return _respond(found, wanted.return_scores)

    @app.get("/health")
    async def health() -> dict[str, str | int]:
        return {
            "status": "ok",
            "index": name,
            "passages": len(corpus),
            "corpus": corpus.manifest.source,
            "fingerprint": corpus.manifest.fingerprint,
        }

    @app.get("/metrics")
    async def read_metrics() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return app


def bind(host: str, port: int) -> socket.socket:
    """A socket with an address; clients are refused until it listens. Port 0 is any free one.

    Raises:
        InputError: the address cannot be had.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # asyncio sets this itself only for sockets that it made; without it, every answer on a kept
    # connection waits 40 ms for the client's acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(
            f"cannot listen on {host}:{port} ({error}); required: a free port of this machine; "
            "choose another --port or --host"
        ) from error
    return listener


def make_server(app: FastAPI) -> uvicorn.Server:
    """A server for ``app``; its ``run(sockets=[...])`` returns after SIGINT or SIGTERM."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            backlog=BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=5,
        )
    )


def allow_many_connections() -> None:
    """Raises this process's limit of open files as far as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _read(request: Request, limits: ServerLimits) -> bytes:
    """The body of a request, within the limits of size and time."""
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body_bytes:
                    detail = f"the body has more than {limits.body_bytes:,} bytes; send less"
                    raise HTTPException(413, detail)
    except TimeoutError as error:
        detail = f"the body did not arrive within {limits.body_seconds:g} s"
        raise HTTPException(408, detail, {"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the client went away") from error
    return bytes(body)


def _parse(body: bytes, limits: ServerLimits) -> RetrieveRequest:
    try:
        # Not pydantic's own parser, which refuses the lone surrogates that policies do write.
        wanted = RetrieveRequest.model_validate(json.loads(body))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        detail = f"{where}: {first['msg']}; required: queries (texts), topk, return_scores"
        raise HTTPException(422, detail) from error
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error
    longest = max(map(len, wanted.queries), default=0)
    for given, least, most, what in (
        (len(wanted.queries), 1, limits.queries, "the number of queries"),
        (longest, 0, limits.query_chars, "the length of the longest query, in characters,"),
        (DEFAULT_TOPK if wanted.topk is None else wanted.topk, 1, limits.topk, "topk"),
    ):
        if not least <= given <= most:
            raise HTTPException(422, f"{what} is {given}; required: {least} to {most}")
    return wanted


def _clean(query: str) -> str:
    """The query without lone surrogates, which no tokenizer takes."""
    return query.encode("utf-8", "replace").decode("utf-8")


def _respond(found: Sequence[Sequence[_Found]], with_scores: bool) -> Response:
    result = [
        [
            {"document": hit.document, "score": hit.score} if with_scores else hit.document
            for hit in hits
        ]
        for hits in found
    ]
    return Response(json.dumps({"result": result}), media_type="application/json")
