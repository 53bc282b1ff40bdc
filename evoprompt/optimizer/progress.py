"""Progress of a running optimization, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Event, Notice, Proposed, Seeded, Verified
from evoprompt.optimizer.html import diff_text
from evoprompt.optimizer.problem import Ended
from evoprompt.support.errors import warn
from evoprompt.support.text import printable
from evoprompt.types import legible


@contextmanager
def show_progress(log: EventLog, shows_iterations: bool) -> Iterator[None]:
    """Show the events of ``log`` while inside; notices are warnings in any case.

    Args:
        log: the log of the optimization.
        shows_iterations: whether to write a line for each text that is accepted or rejected.
    """
    texts: dict[str, str] = {}
    parents: dict[str, str] = {}

    def follow(event: Event) -> None:
        match event:
            case Notice() if not isinstance(event, Ended):
                warn(event.message)
            case Seeded() | Proposed() if event.candidate:
                texts[event.candidate] = " ".join(legible(event.components).split())
                if isinstance(event, Proposed) and event.parents:
                    parents[event.candidate] = event.parents[0]
            case Proposed() if shows_iterations:
                _print(event.step, f"a proposal was rejected unmeasured: {event.reason}")
            case Verified() if shows_iterations:
                _print(event.step, _describe(event, texts, parents))

    log.subscribe(follow)
    try:
        yield
    finally:
        log.unsubscribe(follow)


def _describe(event: Verified, texts: Mapping[str, str], parents: Mapping[str, str]) -> str:
    """Return what became of a candidate, with its value and how its text differs."""
    value = "" if event.mean is None else f" with {event.mean:.3f} on {event.scored} questions"
    if not event.admitted:
        return f"{event.candidate} was rejected{value}: {event.reason}"
    parent = parents.get(event.candidate, "")
    changes = diff_text(texts.get(parent, ""), texts.get(event.candidate, ""))
    return f"{event.candidate} was accepted{value}, written from {parent}: {changes:.400}"


def _print(step: int, message: str) -> None:
    print(f"iteration {step}: {printable(message)}", file=sys.stderr, flush=True)
