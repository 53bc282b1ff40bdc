"""Coroutines, waited for where a loop may be running already, as in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

ResultT = TypeVar("ResultT")


def completed(work: Coroutine[None, None, ResultT]) -> ResultT:
    """What a coroutine comes to; where a loop runs in this thread, by a loop in another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
