"""Says that rollouts hang, as a replica that died silently leaves them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

_PATIENCE, _PAUSE = 600.0, 30.0


class Watchdog:
    """Looks from a thread of its own, inside of a ``with``, whether groups are finished.

    Args:
        count: how many groups are open; 0 where it cannot tell at this moment.
        of: how many there are.
        say: takes what a person should know, in that thread.
        patience: seconds without a group being finished after which, and again after as many, it is
            said.
        pause: seconds between two looks.
        now: the clock, in seconds.
    """

    def __init__(
        self,
        count: Callable[[], int],
        of: int,
        say: Callable[[str], None],
        *,
        patience: float = _PATIENCE,
        pause: float = _PAUSE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count, self._of, self._say = count, of, say
        self._patience, self._pause, self._now = patience, pause, now
        self._open, self._since = of, now()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evoprompt-watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def look(self) -> None:
        """Says it if as many groups are open as long ago."""
        found, now = self._count(), self._now()
        if found and found != self._open:
            self._open, self._since = found, now
        elif now - self._since >= self._patience:
            minutes = self._patience / 60
            self._say(
                f"{self._open} of {self._of} groups are open, and none was finished for "
                f"{minutes:g} minutes: a rollout replica or a tool may hang; see their logs, and "
                "after Ctrl-C continue with --resume"
            )
            self._since = now

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            self.look()
