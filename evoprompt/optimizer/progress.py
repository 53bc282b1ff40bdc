"""Progress of a running optimization, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Event, Notice, Proposed, Verified
from evoprompt.optimizer.problem import Ended
from evoprompt.support.errors import warn
from evoprompt.support.text import printable
from evoprompt.types import legible


@contextmanager
def show_progress(log: EventLog, shows_accepted: bool) -> Iterator[None]:
    """Show the events of ``log`` while inside; notices are warnings in any case.

    Args:
        log: the log of the optimization.
        shows_accepted: whether to write a line for each text that is accepted.
    """
    texts: dict[str, str] = {}

    def follow(event: Event) -> None:
        match event:
            case Notice() if not isinstance(event, Ended):
                warn(event.message)
            case Proposed() if event.candidate:
                texts[event.candidate] = " ".join(legible(event.components).split())
            case Verified() if event.admitted and shows_accepted:
                mean = "" if event.mean is None else f" with {event.mean:.3f}"
                text = printable(texts.get(event.candidate, ""))
                message = f"{event.candidate} was accepted{mean}: {text:.200}"
                print(f"iteration {event.step}: {message}", file=sys.stderr, flush=True)

    log.subscribe(follow)
    try:
        yield
    finally:
        log.unsubscribe(follow)
