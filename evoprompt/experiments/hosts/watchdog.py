"""Watchdog that reports hanging rollouts, as after the silent end of a replica."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evoprompt.engine import Engine
from evoprompt.log.events import Notice

_PATIENCE, _PAUSE = 600.0, 30.0


class Watchdog:
    """Watchdog that checks from a thread of its own whether rollouts are finished.

    Args:
        count: returns the number of open ones; 0 if it is unknown at this moment.
        of: number of all.
        engine: its listeners receive the notice; None for no listeners. As the notice depends on
            the clock, it does not belong into the log.
        unit: name of the counted things.
        patience: seconds without progress after which it is reported, and reported again after as
            many.
        pause: seconds between two checks.
        now: the clock, in seconds.
    """

    def __init__(
        self,
        count: Callable[[], int],
        of: int,
        engine: Engine | None,
        unit: str = "groups",
        *,
        patience: float = _PATIENCE,
        pause: float = _PAUSE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count, self._of, self._engine, self._unit = count, of, engine, unit
        self._patience, self._pause, self._now = patience, pause, now
        self._open, self._since = of, now()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Check repeatedly until the body of the context has ended."""
        over = threading.Event()

        def run() -> None:
            while not over.wait(self._pause):
                self.check_progress()

        thread = threading.Thread(target=run, name="evoprompt-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def check_progress(self) -> None:
        """Report it if the number of open rollouts has not changed for the patience."""
        num_open, now = self._count(), self._now()
        if num_open and num_open != self._open:
            self._open, self._since = num_open, now
        elif now - self._since >= self._patience and self._engine is not None:
            notice = (
                f"{self._open} of {self._of} {self._unit} are open, and none was finished for "
                f"{self._patience / 60:g} minutes: a rollout replica or a tool hangs, or is as "
                "slow as that; see their logs, and after Ctrl-C continue with --resume"
            )
            self._engine.log.show(Notice(self._engine.step, notice))
            self._since = now
