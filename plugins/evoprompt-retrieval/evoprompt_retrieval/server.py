"""The search server: Search-R1's protocol, so that every client of it works unchanged.

``POST /retrieve`` with ``{"queries": [...], "topk": 3, "return_scores": true}`` answers
``{"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}``, one list a query; without
``return_scores`` the inner lists hold the documents themselves. A query without a word is answered
by an empty list, because one such query must not fail the batch it came in.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import TypeVar
from urllib.parse import urlsplit

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from evoprompt_retrieval.batching import OverloadedError
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.crew import Crew
from evoprompt_retrieval.index import SearchIndex
from evoprompt_retrieval.metrics import ServerMetrics
from evoprompt_retrieval.requests import RefusedError, ServerLimits, Wanted, parse
from evoprompt_retrieval.searcher import Searcher

Result = TypeVar("Result")

_LOG = logging.getLogger(__name__)
_LARGE = 65_536
"""A body of more bytes is read beside the event loop."""

_GONE = 499
"""What is counted, as nginx does, where the client has left."""


class _Endpoints:
    """What the server answers.

    Args:
        corpus: holds the passages.
        index: finds their rows.
        name: says what is served.
        limits: of a request.
        hosts: names under which the server may be asked, beside addresses of numbers.
        crew: the processes that answer on the same address.
    """

    def __init__(
        self,
        corpus: Corpus,
        index: SearchIndex,
        name: str,
        limits: ServerLimits,
        hosts: Collection[str],
        crew: Crew | None,
    ) -> None:
        self._manifest, self._name, self._limits = corpus.manifest, name, limits
        self._hosts = {"localhost", socket.gethostname().lower(), *map(str.lower, hosts)}
        self._crew = crew
        self._metrics = ServerMetrics()
        self._searcher = Searcher(corpus, index, limits, self._metrics)

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Searches as long as the server runs."""
        async with self._searcher.batcher:
            if self._crew:
                self._crew.join()
            yield
        self._searcher.close()

    async def retrieve(self, request: Request) -> Response:
        """The passages found."""
        with self._metrics.request("/retrieve") as outcome:
            try:
                self._require_host(request)
                wanted = await self._read(request)
                body = await _while_there(request, self._searcher.answer(wanted))
            except ClientDisconnect:
                outcome.status = _GONE
                return Response(status_code=_GONE)
            except RefusedError as error:
                outcome.status = error.status
                return _refusal(error)
            except OverloadedError as error:
                outcome.status = 503
                detail = f"{error}; required: at most {self._limits.waiting}; try again later"
                return _refusal(RefusedError(503, detail))
            except Exception:
                _LOG.exception("a search failed")
                detail = "the search failed; the reason is in the server's log"
                return _refusal(RefusedError(500, detail))
            outcome.status, outcome.queries = 200, len(wanted.queries)
            return Response(body, media_type="application/json")

    async def health(self, request: Request) -> Response:
        """What is served."""
        return self._tell(
            request,
            lambda: JSONResponse(
                {
                    "status": "ok",
                    "index": self._name,
                    "passages": self._manifest.passages,
                    "corpus": self._manifest.source,
                    "fingerprint": self._manifest.fingerprint,
                }
            ),
        )

    async def ready(self, request: Request) -> Response:
        """Whether every process has opened the index: 200, else 503."""
        joined, workers = (self._crew.joined(), self._crew.size) if self._crew else (1, 1)
        ready = joined >= workers
        answer = {"ready": ready, "workers": workers, "loaded": min(joined, workers)}
        return self._tell(request, lambda: JSONResponse(answer, 200 if ready else 503))

    async def metrics(self, request: Request) -> Response:
        """What was counted, by all processes, for Prometheus."""
        return self._tell(
            request, lambda: Response(self._metrics.render(), media_type=CONTENT_TYPE_LATEST)
        )

    def _tell(self, request: Request, make: Callable[[], Response]) -> Response:
        with self._metrics.request(request.url.path) as outcome:
            try:
                self._require_host(request)
                response = make()
            except RefusedError as error:
                response = _refusal(error)
            outcome.status = response.status_code
            return response

    def _require_host(self, request: Request) -> None:
        """Refuses a page in a browser that had its own name point to this machine."""
        given = request.headers.get("host")
        if given is None:
            return  # no browser leaves it out; a balancer's health check may
        name = _host_name(given)
        if name not in self._hosts and not _is_number(name):
            raise RefusedError(
                421,
                f"the host is {given!r}; required: an address of numbers or one of "
                f"{', '.join(sorted(self._hosts))}; start the server with --allow-host NAME",
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
            self._metrics.cut(wanted.cut)
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
    crew: Crew | None = None,
) -> Starlette:
    """The web application that searches ``index``.

    Args:
        corpus: holds the passages.
        index: finds their rows.
        name: says in ``/health`` what is served.
        limits: of a request.
        hosts: further names under which the server may be asked.
        crew: the processes that answer on the same address, where this is one of several.
    """
    endpoints = _Endpoints(corpus, index, name, limits or ServerLimits(), hosts, crew)
    return Starlette(
        routes=[
            Route("/retrieve", endpoints.retrieve, methods=["POST"]),
            Route("/health", endpoints.health),
            Route("/ready", endpoints.ready),
            Route("/metrics", endpoints.metrics),
        ],
        lifespan=endpoints.lifespan,
    )


async def _while_there(request: Request, work: Awaitable[Result]) -> Result:
    """What ``work`` returns; it is cancelled when the client leaves.

    Raises:
        ClientDisconnect: the client has left.
    """
    me = asyncio.current_task()
    assert me is not None
    left = asyncio.ensure_future(request.receive())  # after the body, nothing else can come
    left.add_done_callback(me.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        if left.done():
            me.uncancel()
            raise ClientDisconnect from None
        raise
    finally:
        left.remove_done_callback(me.cancel)
        left.cancel()


def _host_name(header: str) -> str:
    """The host without its port, in lower case; empty if it is none."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refusal(error: RefusedError) -> Response:
    headers = {
        408: {"Connection": "close"},
        413: {"Connection": "close"},
        503: {"Retry-After": "1"},
    }.get(error.status, {})
    body = json.dumps({"detail": error.detail})
    return Response(body, error.status, headers, "application/json")
