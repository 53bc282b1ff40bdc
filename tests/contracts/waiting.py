"""Waiting for what another thread or process does, however slow the machine is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 300.0
"""Seconds after which what did not happen counts as never happening; nothing is that slow."""


def wait_for(condition: Callable[[], Found], seconds: float = PATIENCE) -> Found:
    """What ``condition`` returns as soon as that is true.

    Raises:
        AssertionError: it is not, after ``seconds``.
    """
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < end, f"still not so after {seconds:g} s"
        pause.wait(0.01)
    return found
