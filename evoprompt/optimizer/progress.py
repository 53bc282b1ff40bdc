"""Shows an optimization while it runs: what a person should know, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from evoprompt.errors import warn
from evoprompt.eventlog import EventLog
from evoprompt.events import Evaluated, Event, Evolved, Notice, Proposed, Verified
from evoprompt.optimizer.problem import Ended
from evoprompt.text import printable
from evoprompt.types import legible


@contextmanager
def shown(log: EventLog, budget: int, wanted: bool) -> Iterator[None]:
    """Shows the events of ``log`` while inside; notices are warnings in any case.

    Args:
        log: of the optimization.
        budget: most rollouts.
        wanted: whether to write a line for each text that is accepted, and in a terminal where the
            optimization stands.
    """
    console = Console(stderr=True)
    status = console.status("the seed instruction is measured")
    follow = _Follower(budget, status, wanted)
    log.subscribe(follow)
    if wanted and console.is_terminal:
        status.start()
    try:
        yield
    finally:
        status.stop()
        log.unsubscribe(follow)


class _Follower:
    """Tells of one event after another."""

    def __init__(self, budget: int, status: Status, wanted: bool) -> None:
        self._budget = budget
        self._status = status
        self._wanted = wanted
        self._spent = 0
        self._value = 0.0
        self._texts: dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case Notice():
                if not isinstance(event, Ended):
                    warn(event.message)
            case Evaluated():
                self._spent, self._value = event.rollouts, event.metrics["reward"]
            case Evolved():
                self._spent += event.rollouts
            case Proposed() if event.candidate:
                self._texts[event.candidate] = legible(event.components)
            case Verified():
                text = " ".join(self._texts.pop(event.candidate, "").split())
                if event.admitted and self._wanted:
                    mean = "" if event.mean is None else f" with {event.mean:.3f}"
                    said = f"{event.candidate} was accepted{mean}: {printable(text):.200}"
                    print(f"{self._where(event)}: {said}", file=sys.stderr, flush=True)
        self._status.update(f"{self._where(event)}, validation {self._value:.3f}")

    def _where(self, event: Event) -> str:
        return f"iteration {event.step}, {self._spent} of {self._budget} rollouts"
