"""Says aloud that somebody keeps training waiting, while it still waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def told_after(seconds: float, tell: Callable[[], None]) -> Iterator[None]:
    """Calls ``tell``, in a thread of its own, if the body takes longer than ``seconds``."""
    timer = threading.Timer(seconds, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
