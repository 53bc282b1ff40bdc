"""Turns many small concurrent calls into few large ones, without making a lone call wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class OverloadedError(RuntimeError):
    """More items are waiting than may wait."""


@dataclass(frozen=True, slots=True)
class _Call(Generic[Item, Result]):
    items: Sequence[Item]
    answer: asyncio.Future[Sequence[Result]]


class MicroBatcher(Generic[Item, Result]):
    """Handles what arrived while the batch before was being handled as the next batch.

    Nothing waits for a timer: a call on an idle batcher is handled at once, and the busier it is,
    the larger the batches. A call that was given up while it waited is not handled.

    Args:
        handle: one result an item, in order; its exception reaches every caller of the batch.
        max_items: most items a batch; a single larger call is a batch of its own.
        max_waiting: most items that wait; further calls are refused.
        workers: batches handled at a time.
    """

    def __init__(
        self,
        handle: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        max_items: int,
        max_waiting: int,
        workers: int = 1,
    ) -> None:
        self._handle = handle
        self._max_items, self._max_waiting = max_items, max_waiting
        self._calls: deque[_Call[Item, Result]] = deque()
        self._waiting = 0
        self._arrival = asyncio.Semaphore(0)
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._workers)]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for call in self._calls:
            call.answer.cancel()

    async def submit(self, items: Sequence[Item]) -> Sequence[Result]:
        """One result an item, in order.

        Raises:
            OverloadedError: too many items are waiting.
        """
        if self._waiting + len(items) > self._max_waiting:
            raise OverloadedError(f"{self._waiting} items are waiting already")
        answer: asyncio.Future[Sequence[Result]] = asyncio.get_running_loop().create_future()
        call = _Call(items, answer)
        self._calls.append(call)
        self._waiting += len(items)
        self._arrival.release()
        return await answer

    async def _work(self) -> None:
        while True:
            await self._arrival.acquire()
            batch = self._take()
            if batch:
                await self._answer(batch)

    def _take(self) -> list[_Call[Item, Result]]:
        """The calls to handle now, oldest first; those given up are dropped on the way."""
        batch: list[_Call[Item, Result]] = []
        size = 0
        while self._calls:
            call = self._calls[0]
            if batch and size + len(call.items) > self._max_items:
                break
            self._calls.popleft()
            self._waiting -= len(call.items)
            if not call.answer.done():
                batch.append(call)
                size += len(call.items)
        return batch

    async def _answer(self, batch: Sequence[_Call[Item, Result]]) -> None:
        items = [item for call in batch for item in call.items]
        try:
            results = await self._handle(items)
        except asyncio.CancelledError:
            for call in batch:
                call.answer.cancel()
            raise
        except Exception as error:
            for call in batch:
                if not call.answer.done():
                    call.answer.set_exception(error)
            return
        start = 0
        for call in batch:
            stop = start + len(call.items)
            if not call.answer.done():
                call.answer.set_result(results[start:stop])
            start = stop
