"""The search server: Search-R1's protocol, so that every client of it works unchanged.

``POST /retrieve`` with ``{"queries": [...], "topk": 3, "return_scores": true}`` answers
``{"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}``, one list a query; without
``return_scores`` the inner lists hold the documents themselves. A query without a word is answered
by an empty list, because one such query must not fail the batch it came in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from evoprompt_retrieval.batching import MicroBatcher, OverloadedError
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import Hit, SearchIndex
from evoprompt_retrieval.requests import RefusedError, ServerLimits, Wanted, parse

_LOG = logging.getLogger(__name__)
_LARGE = 65_536
"""A body of more bytes is read beside the event loop."""

_HEADERS = {
    408: {"Connection": "close"},
    413: {"Connection": "close"},
    503: {"Retry-After": "1"},
}


class _Item(NamedTuple):
    query: str
    topk: int
    with_scores: bool


class _Endpoints:
    """Searches and writes what is found in a thread; the event loop only passes bytes on.

    Args:
        corpus: holds the passages.
        index: finds their rows.
        name: says what is served.
        limits: of a request.
    """

    def __init__(self, corpus: Corpus, index: SearchIndex, name: str, limits: ServerLimits) -> None:
        self._corpus, self._index, self._name, self._limits = corpus, index, name, limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="search")
        self._batcher = MicroBatcher[_Item, bytes](
            self._search_beside, max_items=limits.batch, max_waiting=limits.waiting
        )

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Searches as long as the server runs."""
        async with self._batcher.running():
            yield
        self._thread.shutdown(cancel_futures=True)

    async def retrieve(self, request: Request) -> Response:
        """The passages found."""
        try:
            wanted = await self._read(request)
            items = [_Item(query, wanted.topk, wanted.with_scores) for query in wanted.queries]
            parts: list[bytes] = []
            # A large request is searched in parts, so that smaller ones get their turn in between.
            for start in range(0, len(items), self._limits.batch):
                parts += await self._batcher.submit(items[start : start + self._limits.batch])
        except ClientDisconnect:
            return Response(status_code=400)  # to nobody
        except RefusedError as error:
            return _refuse(error.status, error.detail)
        except OverloadedError as error:
            detail = f"{error}; required: at most {self._limits.waiting}; try again later"
            return _refuse(503, detail)
        except Exception:
            _LOG.exception("a search failed")
            return _refuse(500, "the search failed; the reason is in the server's log")
        return Response(b'{"result":[%s]}' % b",".join(parts), media_type="application/json")

    async def health(self, request: Request) -> Response:
        """What is served."""
        found = self._corpus.manifest
        return JSONResponse(
            {
                "status": "ok",
                "index": self._name,
                "passages": found.passages,
                "corpus": found.source,
                "fingerprint": found.fingerprint,
            }
        )

    async def _read(self, request: Request) -> Wanted:
        """The request, within the limits of size and time."""
        kind = request.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise RefusedError(415, f"the content type is {kind!r}; required: application/json")
        limits = self._limits
        body = bytearray()
        try:
            async with asyncio.timeout(limits.seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > limits.body_bytes:
                        detail = f"the body has more than {limits.body_bytes:,} bytes; send less"
                        raise RefusedError(413, detail)
        except TimeoutError as error:
            detail = f"the body did not arrive within {limits.seconds} s"
            raise RefusedError(408, detail) from error
        if len(body) <= _LARGE:
            wanted = parse(bytes(body), limits)
        else:
            wanted = await asyncio.to_thread(parse, bytes(body), limits)
        if wanted.cut:
            told = (wanted.cut, len(wanted.queries), limits.query_chars)
            _LOG.warning("%d of %d queries had more than %d characters and lost their end", *told)
        return wanted

    async def _search_beside(self, items: Sequence[_Item]) -> Sequence[bytes]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._search, items)

    def _search(self, items: Sequence[_Item]) -> Sequence[bytes]:
        found: dict[_Item, bytes] = {}
        for topk, with_scores in sorted({(item.topk, item.with_scores) for item in items}):
            alike = [item for item in dict.fromkeys(items) if item[1:] == (topk, with_scores)]
            hits = self._index.search([item.query for item in alike], topk)
            for item, found_hits in zip(alike, hits, strict=True):
                found[item] = self._write(found_hits, with_scores)
        return [found[item] for item in items]

    def _write(self, hits: Sequence[Hit], with_scores: bool) -> bytes:
        found = [(self._corpus[hit.row], hit.score) for hit in hits]
        documents = [({"id": one.id, "contents": one.contents}, score) for one, score in found]
        if not with_scores:
            return msgspec.json.encode([document for document, _ in documents])
        return msgspec.json.encode(
            [{"document": document, "score": score} for document, score in documents]
        )


def create_app(
    corpus: Corpus,
    index: SearchIndex,
    name: str,
    limits: ServerLimits | None = None,
    hosts: Collection[str] = (),
) -> Starlette:
    """The web application that searches ``index``.

    Args:
        corpus: holds the passages.
        index: finds their rows.
        name: says in ``/health`` what is served.
        limits: of a request.
        hosts: names under which the server may be asked, beside those of this machine: a page in a
            browser may have had a name of its own point here.
    """
    endpoints = _Endpoints(corpus, index, name, limits or ServerLimits())
    known = ["localhost", "127.0.0.1", "::1", "[::1]", socket.gethostname(), *hosts]
    return Starlette(
        routes=[
            Route("/retrieve", endpoints.retrieve, methods=["POST"]),
            Route("/health", endpoints.health),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=known, www_redirect=False)],
        lifespan=endpoints.lifespan,
    )


def _refuse(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status, _HEADERS.get(status))
