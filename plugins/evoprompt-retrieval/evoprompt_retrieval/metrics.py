"""What a search server counts, in the format of Prometheus."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)


@dataclass(slots=True)
class Outcome:
    """What became of a request.

    Attributes:
        status: HTTP status it is answered with.
        queries: number of queries it asked.
    """

    status: int = 500
    queries: int = 0


class ServerMetrics:
    """Counters of one server.

    Attributes:
        registry: to be rendered by ``prometheus_client.generate_latest``.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        prefix = "evoprompt_retriever"
        self._requests = Counter(
            f"{prefix}_requests", "Requests by status.", ["status"], registry=registry
        )
        self._queries = Counter(f"{prefix}_queries", "Queries answered.", registry=registry)
        self._cut = Counter(
            f"{prefix}_cut_queries", "Queries that were too long.", registry=registry
        )
        self._open = Gauge(f"{prefix}_open_requests", "Requests unanswered.", registry=registry)
        self._latency = Histogram(
            f"{prefix}_request_seconds", "Time to answer.", buckets=_SECONDS, registry=registry
        )
        self._batches = Histogram(
            f"{prefix}_batch_queries", "Queries a batch.", buckets=_SIZES, registry=registry
        )
        self._searches = Histogram(
            f"{prefix}_search_seconds", "Time to search.", buckets=_SECONDS, registry=registry
        )

    @contextlib.contextmanager
    def request(self) -> Iterator[Outcome]:
        """Counts one request by what its outcome says at the end."""
        outcome = Outcome()
        started = time.perf_counter()
        with self._open.track_inprogress():
            try:
                yield outcome
            finally:
                self._requests.labels(str(outcome.status)).inc()
                self._queries.inc(outcome.queries)
                self._latency.observe(time.perf_counter() - started)

    def cut(self, queries: int) -> None:
        """Counts queries that lost their end."""
        self._cut.inc(queries)

    def searched(self, queries: int, seconds: float) -> None:
        """Counts one batch."""
        self._batches.observe(queries)
        self._searches.observe(seconds)
