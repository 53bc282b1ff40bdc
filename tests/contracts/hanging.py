"""Calls that return only when they were reported, without a look at the clock."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from waiting import wait_for

from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Event, Notice
from evoprompt.support.waiting import monitor


@dataclass
class Hang:
    """A call that hangs until a line with a text was reported.

    Attributes:
        text: the text.
        warned: the messages of all warnings until now.
        noticed: the messages of all notices that were shown until now.
    """

    text: str
    warned: list[warnings.WarningMessage]
    noticed: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """Return the lines with the text of which a warning was given."""
        return [str(one.message) for one in self.warned if self.text in str(one.message)]

    def wait(self) -> None:
        """Return when the line was reported."""
        wait_for(lambda: bool(self.lines))

    def take(self, event: Event) -> None:
        """Take an event of a log."""
        if isinstance(event, Notice) and self.text in event.message:
            self.noticed.append(event.message)


@contextmanager
def hanging(text: str, log: EventLog | None = None) -> Iterator[Hang]:
    """Report every call immediately, and yield one that waits for the line with ``text``."""
    with (
        warnings.catch_warnings(record=True) as caught,
        pytest.MonkeyPatch.context() as patch,
    ):
        warnings.simplefilter("always")
        patch.setattr(monitor, "patience", 0.0)
        hang = Hang(text, caught)
        if log is not None:
            log.subscribe(hang.take)
        yield hang
