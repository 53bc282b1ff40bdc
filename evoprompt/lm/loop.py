"""Event loop of the process, for threads that wait for coroutines."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import threading
from collections.abc import Awaitable
from typing import TypeVar

_GRACE = 0.1  # seconds for cancelled calls to close their resources
_PATIENCE = 300.0  # seconds for an import in progress; if it were cut off, the exit would hang

_LOCK = threading.Lock()

Result = TypeVar("Result")


def completed(work: Awaitable[Result]) -> Result:
    """Return the result of ``work``, also if another loop runs in this thread (a notebook).

    All calls share one loop, so that clients keep their connections.

    Raises:
        RuntimeError: the caller runs in that loop, which would then wait for itself.
    """
    with _LOCK:
        loop, thread = _loop_of(os.getpid())
    if threading.current_thread() is thread:
        raise RuntimeError(
            "a coroutine waits for another one in the loop that both run in; required: another "
            "thread; write await asyncio.to_thread(...) around the call"
        )
    future = asyncio.run_coroutine_threadsafe(_awaited(work), loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C reaches the waiting thread only
        raise


async def _awaited(work: Awaitable[Result]) -> Result:
    return await work


@functools.cache
def _loop_of(process: int) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    """Return a running event loop and its thread.

    A forked process does not inherit the thread of its parent.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_run, args=(loop,), name="evoprompt-async", daemon=True)
    thread.start()
    atexit.register(_end, process, loop, thread)
    return loop, thread


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped; ``SystemExit`` of a task goes to who waits for the task."""
    while True:
        try:
            loop.run_forever()
            return
        except SystemExit:
            continue


def _end(process: int, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """End the calls in progress before the interpreter ends.

    A thread that is killed during an import leaves a lock behind, and an import in a destructor
    would wait for it forever.
    """

    def stop() -> None:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.call_later(_GRACE, loop.stop)

    if process == os.getpid():  # a fork inherits this function, but not the thread
        loop.call_soon_threadsafe(stop)
        thread.join(_PATIENCE)
        if not thread.is_alive():
            loop.close()
