"""Batching of many small concurrent calls into few large ones, without delay of a lone call."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class OverloadedError(RuntimeError):
    """More items are waiting than may wait."""


class MicroBatcher(Generic[Item, Result]):
    """Batcher that handles the calls which arrive during a batch as the next batch.

    No call waits for a timer: on an idle batcher it is handled immediately, and the busier the
    batcher is, the larger are the batches. A call that was given up while it waited is not handled.

    Args:
        handle: returns one result an item, in order; its exception reaches every caller of the
            batch.
        max_items: most items a batch; a single larger call is a batch of its own.
        max_waiting: most items that wait; further calls are refused.
        workers: batches handled at a time.
    """

    def __init__(
        self,
        handle: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        max_items: int,
        max_waiting: int = 1_000_000,
        workers: int = 1,
    ) -> None:
        self._handle = handle
        self._max_items, self._max_waiting, self._workers = max_items, max_waiting, workers
        self._calls: deque[tuple[Sequence[Item], asyncio.Future[Sequence[Result]]]] = deque()
        self._waiting = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Cancel unanswered calls at the end of the context."""
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for _, answer in self._calls:
                answer.cancel()

    async def submit(self, items: Sequence[Item]) -> Sequence[Result]:
        """Return one result an item, in order.

        Raises:
            OverloadedError: too many items are waiting.
        """
        if self._waiting + len(items) > self._max_waiting:
            raise OverloadedError(f"{self._waiting} items are waiting already")
        answer: asyncio.Future[Sequence[Result]] = asyncio.get_running_loop().create_future()
        self._calls.append((items, answer))
        self._waiting += len(items)
        if sum(not task.done() for task in self._tasks) < self._workers:
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _work(self) -> None:
        """Handle batches until no call waits: no task is left when an event loop ends."""
        while batch := self._next_batch():
            await self._answer(batch)

    def _next_batch(self) -> list[tuple[Sequence[Item], asyncio.Future[Sequence[Result]]]]:
        """Return the calls to handle now, oldest first; drop those that were given up."""
        batch: list[tuple[Sequence[Item], asyncio.Future[Sequence[Result]]]] = []
        size = 0
        while self._calls and (not batch or size + len(self._calls[0][0]) <= self._max_items):
            items, answer = self._calls.popleft()
            self._waiting -= len(items)
            if not answer.done():
                batch.append((items, answer))
                size += len(items)
        return batch

    async def _answer(
        self, batch: Sequence[tuple[Sequence[Item], asyncio.Future[Sequence[Result]]]]
    ) -> None:
        try:
            results = await self._handle([item for items, _ in batch for item in items])
        except BaseException as error:
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error) if isinstance(error, Exception) else answer.cancel()
            if isinstance(error, Exception):
                return
            raise
        start = 0
        for items, answer in batch:
            if not answer.done():
                answer.set_result(results[start : start + len(items)])
            start += len(items)
