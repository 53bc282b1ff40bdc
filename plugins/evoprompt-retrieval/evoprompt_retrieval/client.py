"""Search client of rollouts, with batching, a cache and retries.

It raises :class:`RetrievalError` if the server does not respond or its answer is unusable. The
rollout must then end unscored, because a broken tool gives no information on policy or instruction.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import anyio.from_thread
import httpx
import msgspec
import tenacity

from evoprompt.support.errors import EvopromptError
from evoprompt_retrieval.batching import MicroBatcher

_LOG = logging.getLogger(__name__)
_NO_IDLE_CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=0)
"""A client that is used until its event loop ends is not closed, and leaves no connection open."""
_PATH = "/retrieve"
_TRANSIENT_STATUSES = frozenset({408, 425, 429})


class RetrievalError(EvopromptError, ConnectionError):
    """The search server could not be reached, or its answer could not be used."""


class _TransientError(RetrievalError):
    """Error that is worth another attempt."""


class _Document(msgspec.Struct):
    contents: str


class _Hit(msgspec.Struct):
    document: _Document


class _Answer(msgspec.Struct):
    result: list[list[_Hit]]


class RetrievalClient:
    """Search client over HTTP; an asynchronous context manager.

    Concurrent queries are sent together, and the last answers are cached: a repeated query costs
    nothing.

    Args:
        url: of the server, with or without ``/retrieve``.
        topk: passages per query.
        timeout: longest time for one attempt, in seconds.
        attempts: number of attempts, at least 1.
        pause: longest pause before the second attempt, in seconds; it doubles from then on.
        batch: most queries a request.
        connections: requests at a time.
        cached: most answers in the cache; three passages of Wikipedia take about 4 KB.
        transport: replaces the network, for tests.
    """

    def __init__(
        self,
        url: str,
        *,
        topk: int = 3,
        timeout: float = 60.0,
        attempts: int = 4,
        pause: float = 0.5,
        batch: int = 256,
        connections: int = 4,
        cached: int = 10_000,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url if url.endswith(_PATH) else url.rstrip("/") + _PATH
        self._topk, self._attempts, self._pause = topk, attempts, pause
        self._timeout, self._transport, self._max_cached = timeout, transport, cached
        self._batcher = MicroBatcher(self._send_with_retries, max_items=batch, workers=connections)
        self._answers: dict[str, asyncio.Task[Sequence[tuple[str, ...]]]] = {}

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            self._http = await stack.enter_async_context(
                httpx.AsyncClient(
                    timeout=self._timeout, transport=self._transport, limits=_NO_IDLE_CONNECTIONS
                )
            )
            await stack.enter_async_context(self._batcher.running())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()
        await asyncio.gather(*self._answers.values(), return_exceptions=True)

    async def search(self, query: str) -> tuple[str, ...]:
        """Return the contents of the best passages for ``query``, best first.

        Raises:
            RetrievalError: the server did not respond, or its answer is unusable.
        """
        query = query.encode("utf-8", "replace").decode("utf-8")
        if query not in self._answers:
            task = asyncio.create_task(self._batcher.submit([query]))
            # The task itself removes a failure: the callers that wait may have been cancelled.
            task.add_done_callback(lambda done: self._forget_failure(query, done))
        else:  # the last requested answer is the last to be removed
            task = self._answers.pop(query)
        self._answers[query] = task
        while len(self._answers) > self._max_cached:
            oldest = next(iter(self._answers))
            if not self._answers[oldest].done():
                break
            del self._answers[oldest]
        (passages,) = await asyncio.shield(task)
        return passages

    def _forget_failure(self, query: str, done: asyncio.Task[Sequence[tuple[str, ...]]]) -> None:
        if done.cancelled() or done.exception():
            self._answers.pop(query, None)

    async def _send_with_retries(self, queries: Sequence[str]) -> list[tuple[str, ...]]:
        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(self._attempts),
            wait=tenacity.wait_random_exponential(self._pause, max=30),
            retry=tenacity.retry_if_exception_type(_TransientError),
            before_sleep=self._warn,
            reraise=True,
        )
        answer: list[tuple[str, ...]] = await retrying(self._send, queries)
        return answer

    def _warn(self, state: tenacity.RetryCallState) -> None:
        details = (state.outcome and state.outcome.exception(), state.attempt_number + 1)
        _LOG.warning("%s; attempt %d of %d follows", *details, self._attempts)

    async def _send(self, queries: Sequence[str]) -> list[tuple[str, ...]]:
        body = {"queries": list(queries), "topk": self._topk, "return_scores": True}
        try:
            response = await self._http.post(self.url, json=body)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise self._error(f"is no address ({error})") from error
        except httpx.HTTPError as error:
            raise self._transient(f"does not answer ({error or type(error).__name__})") from error
        status = response.status_code
        if status in _TRANSIENT_STATUSES or status >= 500:
            raise self._transient(f"answered {status}: {response.text[:200]}")
        if status != 200:
            raise self._error(f"refused the request with {status}: {response.text[:200]}")
        try:
            result = msgspec.json.decode(response.content, type=_Answer).result
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._transient(f"answered garbage: {response.text[:100]!r}") from error
        if len(result) != len(queries):
            raise self._transient(f"answered {len(result)} of {len(queries)} queries")
        return [tuple(hit.document.contents for hit in hits) for hits in result]

    def _transient(self, problem: str) -> RetrievalError:
        return _TransientError(
            f"the search server {self.url} {problem}; start it with 'evoprompt retriever serve', "
            "or check the address"
        )

    def _error(self, problem: str) -> RetrievalError:
        return RetrievalError(
            f"the search server {self.url} {problem}; required: a server of Search-R1's protocol, "
            "such as 'evoprompt retriever serve'"
        )


class BlockingRetriever:
    """Blocking form of a :class:`RetrievalClient`; threads may share it.

    Args:
        client: not used otherwise.
    """

    def __init__(self, client: RetrievalClient) -> None:
        self._client = client

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
            stack.enter_context(self._portal.wrap_async_context_manager(self._client))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def __call__(self, query: str) -> tuple[str, ...]:
        """Return the contents of the best passages for ``query``, best first.

        Raises:
            RetrievalError: the server did not respond, or its answer is unusable.
        """
        return self._portal.call(self._client.search, query)
