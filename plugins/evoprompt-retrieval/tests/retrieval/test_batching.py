from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from evoprompt_retrieval.batching import MicroBatcher, OverloadedError


class Handler:
    """Doubles numbers when it is let to, and remembers the batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = asyncio.Event()

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await self.go.wait()
        if 13 in items:
            raise ValueError("thirteen")
        return [2 * item for item in items]


def batcher(handler: Handler, **limits: int) -> MicroBatcher[int, int]:
    settings = {"max_items": 100, "max_waiting": 1000, **limits}
    return MicroBatcher(handler, **settings)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_arrives_during_a_batch_is_the_next_batch() -> None:
    async def scenario() -> None:
        handler = Handler()
        async with batcher(handler) as batches:
            first = asyncio.create_task(batches.submit([1]))
            await settle()
            others = [asyncio.create_task(batches.submit([n, n + 1])) for n in (10, 20, 30)]
            await settle()
            assert handler.batches == [[1]]
            handler.go.set()
            assert await first == [2]
            assert await asyncio.gather(*others) == [[20, 22], [40, 42], [60, 62]]
        assert handler.batches == [[1], [10, 11, 20, 21, 30, 31]]

    asyncio.run(scenario())


def test_no_batch_exceeds_the_limit_but_a_single_larger_call() -> None:
    async def scenario() -> None:
        handler = Handler()
        async with batcher(handler, max_items=3) as batches:
            tasks = [
                asyncio.create_task(batches.submit(list(range(size)))) for size in (1, 2, 2, 5, 1)
            ]
            await settle()
            handler.go.set()
            answers = await asyncio.gather(*tasks)
        assert [len(answer) for answer in answers] == [1, 2, 2, 5, 1]
        assert [len(batch) for batch in handler.batches] == [3, 2, 5, 1]

    asyncio.run(scenario())


def test_an_error_reaches_its_batch_and_nobody_else() -> None:
    async def scenario() -> None:
        handler = Handler()
        handler.go.set()
        async with batcher(handler, max_items=2) as batches:
            answers = await asyncio.gather(
                batches.submit([13, 1]), batches.submit([2]), return_exceptions=True
            )
            assert isinstance(answers[0], ValueError)
            assert answers[1] == [4]

    asyncio.run(scenario())


def test_a_call_given_up_while_it_waits_is_not_handled() -> None:
    async def scenario() -> None:
        handler = Handler()
        async with batcher(handler) as batches:
            first = asyncio.create_task(batches.submit([1]))
            await settle()
            gone, stays = (asyncio.create_task(batches.submit([n])) for n in (2, 3))
            await settle()
            gone.cancel()
            await settle()
            handler.go.set()
            assert list(await asyncio.gather(first, stays)) == [[2], [6]]
        assert handler.batches == [[1], [3]]

    asyncio.run(scenario())


def test_a_call_given_up_while_it_is_handled_harms_nobody() -> None:
    async def scenario() -> None:
        handler = Handler()
        async with batcher(handler) as batches:
            tasks = [asyncio.create_task(batches.submit([n])) for n in (1, 2)]
            await settle()
            tasks[0].cancel()
            await settle()
            handler.go.set()
            assert await tasks[1] == [4]
            assert await batches.submit([5]) == [10]

    asyncio.run(scenario())


def test_too_many_waiting_are_refused() -> None:
    async def scenario() -> None:
        handler = Handler()
        async with batcher(handler, max_waiting=3) as batches:
            first = asyncio.create_task(batches.submit([1]))
            await settle()
            second = asyncio.create_task(batches.submit([2, 3]))
            await settle()
            with pytest.raises(OverloadedError, match="2 items are waiting"):
                await batches.submit([4, 5])
            handler.go.set()
            assert list(await asyncio.gather(first, second)) == [[2], [4, 6]]
            assert await batches.submit([4, 5, 6]) == [8, 10, 12]

    asyncio.run(scenario())


def test_workers_handle_batches_side_by_side() -> None:
    async def scenario() -> None:
        handler = Handler()
        async with batcher(handler, workers=2) as batches:
            tasks = []
            for number in (1, 2, 3):
                tasks.append(asyncio.create_task(batches.submit([number])))
                await settle()
            assert handler.batches == [[1], [2]]
            handler.go.set()
            assert await asyncio.gather(*tasks) == [[2], [4], [6]]

    asyncio.run(scenario())


def test_leaving_cancels_what_is_unanswered() -> None:
    async def scenario() -> None:
        handler = Handler()
        async with batcher(handler, max_items=1) as batches:
            tasks = [asyncio.create_task(batches.submit([n])) for n in (1, 2)]
            await settle()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, asyncio.CancelledError) for answer in answers)

    asyncio.run(scenario())
