"""Reports of calls that do not return: one line says what a run waits for.

No call is ended. A single thread looks at the open calls, and sleeps while there is none.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from evoprompt.support.errors import warn

PATIENCE = 60.0
"""Seconds after which a call is reported that has not returned."""

_PAUSE, _LEAST_PAUSE = 10.0, 0.01
"""Seconds between two looks at an overdue call that is not reported yet, with a patience as long
and with one of 0."""

Describe = Callable[[], str]
"""Function that returns the line about a call; empty for no line yet."""

Report = Callable[[str], None]
"""Function that takes the line about a call; another thread calls it."""


class _Wait:
    """An open call.

    Attributes:
        describe: returns the line about it.
        report: takes the line.
        due: time of the next look at it.
        inner: number of open calls inside it, one of which is reported in its place.
        is_reported: whether it was reported.
    """

    __slots__ = ("describe", "due", "inner", "is_reported", "report")

    def __init__(self, describe: Describe, report: Report, due: float) -> None:
        self.describe = describe
        self.report = report
        self.due = due
        self.inner = 0
        self.is_reported = False


class WaitMonitor:
    """Monitor of open calls, with a thread that reports those that do not return.

    Args:
        patience: seconds after which a call is reported.

    Attributes:
        patience: the same.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._current: ContextVar[_Wait | None] = ContextVar("evoprompt_wait", default=None)
        self.reset()

    def reset(self) -> None:
        """Forget all calls and the thread, as in a process that was just forked."""
        self._changed = threading.Condition()
        self._waits: set[_Wait] = set()
        self._thread: threading.Thread | None = None
        self._wakes_at = math.inf

    @contextmanager
    def watching(self, describe: Describe, report: Report | None = None) -> Iterator[None]:
        """Report the call in the body, once, if it does not return within the patience.

        Of calls inside each other only the innermost is reported, and the patience with a call
        begins anew when one inside it returns.

        Args:
            describe: returns the line about the call. While the line is empty, the function is
                called again every few seconds.
            report: takes the line; by default the function that takes the line of the call around
                this one, and without such a call a warning.
        """
        outer = self._current.get()
        report = report or (warn if outer is None else outer.report)
        wait = _Wait(describe, report, time.monotonic() + self.patience)
        with self._changed:
            self._waits.add(wait)
            if outer is not None:
                outer.inner += 1
            self._wake(wait.due)
        token = self._current.set(wait)
        try:
            yield
        finally:
            self._current.reset(token)
            with self._changed:
                self._waits.discard(wait)
                if outer is not None:
                    outer.inner -= 1
                    outer.due = time.monotonic() + self.patience

    def suspended(self) -> AbstractContextManager[None]:
        """Return a context in which the calls around it are not reported.

        It is for rollouts of the trainer, which may take long.
        """
        return self.watching(lambda: "")

    def reporting(self, report: Report) -> AbstractContextManager[None]:
        """Return a context in which calls without a ``report`` of their own are passed to one."""
        return self.watching(lambda: "", report)

    def overdue(self) -> list[str]:
        """Return the lines about the calls of this process that the patience is over for."""
        now = time.monotonic()
        with self._changed:
            overdue_waits = [
                wait
                for wait in self._waits
                if not wait.inner and (wait.is_reported or wait.due <= now)
            ]
        return [line for wait in overdue_waits if (line := wait.describe())]

    def _wake(self, due: float) -> None:
        """Start the thread, or wake it if it would sleep for longer than until ``due``."""
        if self._thread is None:
            name = "evoprompt-waiting"
            self._thread = threading.Thread(
                target=self._report_overdue_waits, name=name, daemon=True
            )
            self._thread.start()
        elif due < self._wakes_at:
            self._wakes_at = due
            self._changed.notify()

    def _report_overdue_waits(self) -> None:
        while True:
            with self._changed:
                due_waits = self._next_due()
            for wait in due_waits:
                self._report(wait)

    def _next_due(self) -> list[_Wait]:
        """Sleep until calls are due, if none is; return those that are to be reported."""
        open_waits = [wait for wait in self._waits if not wait.is_reported]
        now = time.monotonic()
        due_waits = [wait for wait in open_waits if wait.due <= now]
        if not due_waits:
            self._wakes_at = min((wait.due for wait in open_waits), default=math.inf)
            self._changed.wait(self._wakes_at - now if open_waits else None)
        for wait in due_waits:
            wait.due = now + max(min(self.patience, _PAUSE), _LEAST_PAUSE)
        return [wait for wait in due_waits if not wait.inner]

    def _report(self, wait: _Wait) -> None:
        try:
            line = wait.describe()
            wait.is_reported = bool(line)
            if line:
                wait.report(line)
        except Exception as error:  # such as a warning that a filter turns into an exception
            logging.getLogger("evoprompt").warning("%s", error)


monitor = WaitMonitor()
"""The monitor of this process."""

os.register_at_fork(after_in_child=monitor.reset)
