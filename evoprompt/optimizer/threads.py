"""Threads for the user's program and metric, which see the context of the caller."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Generic, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
ReturnT = TypeVar("ReturnT")


class CallThreads(Generic[Arguments, ReturnT]):
    """Threads that call one function, each call in a copy of the caller's context.

    Context variables hold what the caller has set for a while: ``dspy.context``, a span of
    OpenTelemetry, a tenant. A ``ThreadPoolExecutor`` does not pass them on, and the interpreter
    waits for its threads: after Ctrl-C the process would last as long as the slowest call.

    Args:
        function: is called.
        limit: most calls at a time.
    """

    def __init__(self, function: Callable[Arguments, ReturnT], limit: int) -> None:
        self._function = function
        self._limit = limit
        self._threads: list[threading.Thread] = []
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def submit(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Future[ReturnT]:
        """Call the function in one of the threads, as soon as one is free."""
        future: Future[ReturnT] = Future()
        context = copy_context()  # one for each call: two threads cannot enter the same one

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(context.run(self._function, *args, **kwargs))
            except BaseException as error:  # the thread that waits for the result raises it
                future.set_exception(error)

        self._jobs.put(call)
        if len(self._threads) < self._limit:
            name = f"evoprompt-rollout-{len(self._threads)}"
            # A daemon, as a call that an interrupt left behind must not keep the process alive.
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        """End each thread after the call that it makes, without waiting for it."""
        for _ in self._threads:
            self._jobs.put(None)
        self._threads.clear()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # the arguments and the result must not outlive the call
