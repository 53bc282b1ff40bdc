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
import socket
from collections.abc import AsyncIterator, Collection

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from evoprompt_retrieval.batching import OverloadedError
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import SearchIndex
from evoprompt_retrieval.requests import RefusedError, ServerLimits, Wanted, parse
from evoprompt_retrieval.searcher import Searcher

_LOG = logging.getLogger(__name__)
_LARGE = 65_536
"""A body of more bytes is read beside the event loop."""


class _Endpoints:
    """What the server answers.

    Args:
        corpus: holds the passages.
        index: finds their rows.
        name: says what is served.
        limits: of a request.
    """

    def __init__(self, corpus: Corpus, index: SearchIndex, name: str, limits: ServerLimits) -> None:
        self._manifest, self._name, self._limits = corpus.manifest, name, limits
        self._searcher = Searcher(corpus, index, limits)

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Searches as long as the server runs."""
        async with self._searcher.batcher:
            yield
        self._searcher.close()

    async def retrieve(self, request: Request) -> Response:
        """The passages found."""
        try:
            wanted = await self._read(request)
            body = await self._searcher.answer(wanted)
        except ClientDisconnect:
            return Response(status_code=400)  # to nobody
        except RefusedError as error:
            return _refusal(error)
        except OverloadedError as error:
            detail = f"{error}; required: at most {self._limits.waiting}; try again later"
            return _refusal(RefusedError(503, detail))
        except Exception:
            _LOG.exception("a search failed")
            detail = "the search failed; the reason is in the server's log"
            return _refusal(RefusedError(500, detail))
        return Response(body, media_type="application/json")

    async def health(self, request: Request) -> Response:
        """What is served."""
        return JSONResponse(
            {
                "status": "ok",
                "index": self._name,
                "passages": self._manifest.passages,
                "corpus": self._manifest.source,
                "fingerprint": self._manifest.fingerprint,
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
            _LOG.warning(
                "%d of %d queries had more than %d characters and lost their end",
                wanted.cut,
                len(wanted.queries),
                limits.query_chars,
            )
        return wanted


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


def _refusal(error: RefusedError) -> Response:
    headers = {
        408: {"Connection": "close"},
        413: {"Connection": "close"},
        503: {"Retry-After": "1"},
    }.get(error.status, {})
    body = json.dumps({"detail": error.detail})
    return Response(body, error.status, headers, "application/json")
