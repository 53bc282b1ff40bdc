"""Work counted in calls: as many on every machine, however slow or busy it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Work:
    """What was done.

    Attributes:
        calls: of functions, those written in C included.
    """

    def __init__(self) -> None:
        self.calls = 0

    def count(self, frame: FrameType, event: str, argument: object) -> None:
        """Counts one event of ``sys.setprofile``."""
        if event in ("call", "c_call"):
            self.calls += 1


@contextmanager
def counted() -> Iterator[Work]:
    """Counts the work of this thread inside."""
    work, before = Work(), sys.getprofile()
    sys.setprofile(work.count)
    try:
        yield work
    finally:
        sys.setprofile(before)
