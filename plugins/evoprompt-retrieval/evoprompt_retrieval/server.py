"""Search server with Search-R1's protocol, so that every client of it works unchanged.

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
from evoprompt_retrieval.requests import RefusedError, SearchRequest, ServerLimits, parse

_LOG = logging.getLogger(__name__)
_LARGE = 65_536
"""A body of more bytes is read in another thread than the event loop."""

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
    """Endpoints of the server; a thread searches and encodes, the event loop only passes bytes on.

    Args:
        corpus: of the passages.
        index: of the corpus.
        name: of the index.
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
        """Search as long as the server runs."""
        async with self._batcher.running():
            yield
        self._thread.shutdown(cancel_futures=True)

    async def retrieve(self, request: Request) -> Response:
        """Return the matching passages."""
        try:
            search_request = await self._read(request)
            items = [
                _Item(query, search_request.topk, search_request.with_scores)
                for query in search_request.queries
            ]
            parts: list[bytes] = []
            # A large request is searched in parts, so that smaller ones get their turn in between.
            for start in range(0, len(items), self._limits.batch):
                parts += await self._batcher.submit(items[start : start + self._limits.batch])
        except ClientDisconnect:
            return Response(status_code=400)  # which no client reads
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
        """Return the state of the server and its index."""
        manifest = self._corpus.manifest
        return JSONResponse(
            {
                "status": "ok",
                "index": self._name,
                "passages": manifest.passages,
                "corpus": manifest.source,
                "fingerprint": manifest.fingerprint,
            }
        )

    async def _read(self, request: Request) -> SearchRequest:
        """Return the request, within the limits of size and time."""
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
            search_request = parse(bytes(body), limits)
        else:
            search_request = await asyncio.to_thread(parse, bytes(body), limits)
        if search_request.cut:
            details = (search_request.cut, len(search_request.queries), limits.query_chars)
            _LOG.warning(
                "%d of %d queries had more than %d characters and lost their end", *details
            )
        return search_request

    async def _search_beside(self, items: Sequence[_Item]) -> Sequence[bytes]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._search, items)

    def _search(self, items: Sequence[_Item]) -> Sequence[bytes]:
        answers: dict[_Item, bytes] = {}
        for topk, with_scores in sorted({(item.topk, item.with_scores) for item in items}):
            alike = [item for item in dict.fromkeys(items) if item[1:] == (topk, with_scores)]
            hits = self._index.search([item.query for item in alike], topk)
            for item, found_hits in zip(alike, hits, strict=True):
                answers[item] = self._write(found_hits, with_scores)
        return [answers[item] for item in items]

    def _write(self, hits: Sequence[Hit], with_scores: bool) -> bytes:
        passages_and_scores = [(self._corpus[hit.row], hit.score) for hit in hits]
        documents = [
            ({"id": passage.id, "contents": passage.contents}, score)
            for passage, score in passages_and_scores
        ]
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
    """Return the web application that searches ``index``.

    Args:
        corpus: of the passages.
        index: of the corpus.
        name: of the index, for ``/health``.
        limits: of a request.
        hosts: allowed names of the server, beside those of this machine: a page in a browser could
            have a foreign name that points to this machine.
    """
    endpoints = _Endpoints(corpus, index, name, limits or ServerLimits())
    allowed_hosts = ["localhost", "127.0.0.1", "::1", "[::1]", socket.gethostname(), *hosts]
    return Starlette(
        routes=[
            Route("/retrieve", endpoints.retrieve, methods=["POST"]),
            Route("/health", endpoints.health),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=allowed_hosts, www_redirect=False)
        ],
        lifespan=endpoints.lifespan,
    )


def _refuse(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status, _HEADERS.get(status))
