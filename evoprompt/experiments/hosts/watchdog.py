"""Says that rollouts hang, as a replica that died silently leaves them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evoprompt.engine import Engine
from evoprompt.log.events import Notice

_PATIENCE, _PAUSE = 600.0, 30.0


class Watchdog:
    """Looks from a thread of its own whether rollouts are finished.

    Args:
        count: how many are open; 0 where it cannot tell at this moment.
        of: how many there are.
        engine: whose listeners hear of it; None for nobody's. As it depends on the clock, it does
            not belong into the log.
        what: is counted.
        patience: seconds without one being finished after which, and again after as many, it is
            said.
        pause: seconds between two looks.
        now: the clock, in seconds.
    """

    def __init__(
        self,
        count: Callable[[], int],
        of: int,
        engine: Engine | None,
        what: str = "groups",
        *,
        patience: float = _PATIENCE,
        pause: float = _PAUSE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count, self._of, self._engine, self._what = count, of, engine, what
        self._patience, self._pause, self._now = patience, pause, now
        self._open, self._since = of, now()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks, again and again, until what is inside has ended."""
        over = threading.Event()

        def run() -> None:
            while not over.wait(self._pause):
                self.look()

        thread = threading.Thread(target=run, name="evoprompt-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def look(self) -> None:
        """Says it if as many are open as long ago."""
        found, now = self._count(), self._now()
        if found and found != self._open:
            self._open, self._since = found, now
        elif now - self._since >= self._patience and self._engine is not None:
            told = (
                f"{self._open} of {self._of} {self._what} are open, and none was finished for "
                f"{self._patience / 60:g} minutes: a rollout replica or a tool hangs, or is as "
                "slow as that; see their logs, and after Ctrl-C continue with --resume"
            )
            self._engine.log.show(Notice(self._engine.step, told))
            self._since = now
