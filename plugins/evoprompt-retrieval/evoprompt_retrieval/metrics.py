"""What a search server counts, in the format of Prometheus."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which several processes count; prometheus_client reads it on its import."""

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
    """Counters of one server, in a process or in several."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        prefix = "evoprompt_retriever"
        self._requests = Counter(
            f"{prefix}_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self._queries = Counter(f"{prefix}_queries", "Queries answered.", registry=registry)
        self._cut = Counter(
            f"{prefix}_cut_queries", "Queries that were too long.", registry=registry
        )
        self._open = Gauge(
            f"{prefix}_open_requests",
            "Requests unanswered.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        workers = Gauge(
            f"{prefix}_workers",
            "Processes that answer.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        workers.set(1)
        self._latency = Histogram(
            f"{prefix}_request_seconds",
            "Time to answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._batches = Histogram(
            f"{prefix}_batch_queries", "Queries a batch.", buckets=_SIZES, registry=registry
        )
        self._searches = Histogram(
            f"{prefix}_search_seconds", "Time to search.", buckets=_SECONDS, registry=registry
        )

    @contextlib.contextmanager
    def request(self, route: str) -> Iterator[Outcome]:
        """Counts one request by what its outcome says at the end."""
        outcome = Outcome()
        started = time.perf_counter()
        with self._open.track_inprogress():
            try:
                yield outcome
            finally:
                self._requests.labels(route, str(outcome.status)).inc()
                self._queries.inc(outcome.queries)
                self._latency.labels(route).observe(time.perf_counter() - started)

    def cut(self, queries: int) -> None:
        """Counts queries that lost their end."""
        self._cut.inc(queries)

    def searched(self, queries: int, seconds: float) -> None:
        """Counts one batch."""
        self._batches.observe(queries)
        self._searches.observe(seconds)

    def render(self) -> bytes:
        """What was counted, of all processes that share a folder, as Prometheus reads it."""
        folder = os.environ.get(SHARED)
        if not folder:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
