"""Reads a log of events back, and refuses what no run has written: a file may be damaged or edited.

Who reads a log relies on what is checked here: every field is there, of its type and finite; a
candidate is new where it is seeded or proposed, and known wherever else it is named, so that nobody
is its own ancestor; an evaluation holds the headline that it names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evoprompt.errors import InputError
from evoprompt.events import (
    KINDS,
    Best,
    Evaluated,
    Event,
    Evolved,
    Intervened,
    Proposed,
    Seeded,
    Shown,
    Told,
    Verified,
)
from evoprompt.text import format_error

_ADAPTERS: Mapping[str, TypeAdapter[Event]] = {kind.kind: TypeAdapter(kind) for kind in KINDS}
_LARGEST_STEP = 1_000_000_000
_LARGEST = 1e100  # of any number; statistics still square it


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events in a JSON-lines file, oldest first; none when the file does not exist.

    A last line cut short by a kill is left out. What older versions did not write has its default.

    Args:
        path: of one trial, or of a run.

    Raises:
        InputError: another line is no event, or cannot follow those before it; names the file and
            the line.
    """
    if not path.exists():
        return
    known: dict[tuple[object, object], set[str]] = {}  # of each trial, in the events of a run
    with path.open("rb") as file:  # as text, other characters would end a line, too
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                given = json.loads(line)
                event = event_of(given)
                trial = (_plain(given, "arm", str), _plain(given, "seed", int))
                _follow(event, known.setdefault(trial, set()))
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{path}:{number} is no event ({format_error(error)}); "
                    "required: one JSON object a "
                    "line, as it was written; fix or delete the line"
                ) from error
            yield {**given, **event.to_json()}


def event_of(given: object) -> Event:
    """The event that is written as ``given``.

    Raises:
        ValueError: no event is written so.
    """
    if not isinstance(given, dict):
        raise ValueError("not an object")
    kind = given.get("event")
    if not isinstance(kind, str) or kind not in _ADAPTERS:
        raise ValueError(f"unknown event {kind!r}; known: {', '.join(_ADAPTERS)}")
    try:
        event = _ADAPTERS[kind].validate_python(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if not 0 <= event.step <= _LARGEST_STEP:
        raise ValueError(f"step {event.step}")
    json.dumps(given, allow_nan=False)
    _require_size(given)
    return event


def _plain(given: Mapping[str, object], key: str, kind: type) -> object:
    """Which trial an event is of, where that is said."""
    value = given.get(key)
    if value is not None and type(value) is not kind:
        raise ValueError(f"{key}: not of type {kind.__name__}")
    return value


def _require_size(value: object) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _require_size(one)
    elif isinstance(value, int | float) and abs(value) > _LARGEST:
        raise ValueError(f"holds a number beyond {_LARGEST:g}")


def _follow(event: Event, known: set[str]) -> None:
    """Adds the candidate that ``event`` brings to those it may name."""
    match event:
        case Seeded():
            _add(event.candidate, known)
        case Proposed() if event.candidate:
            _require_known(event.parents, known)
            _add(event.candidate, known)
        case Told():
            named = [*event.weights, *event.feedback, *event.stderrs]
            _require_known(named, known)
        case Shown():
            _require_known([one.candidate for one in event.excerpts], known)
        case Verified() | Best():
            _require_known([event.candidate], known)
        case Intervened() if event.done:
            _require_known([event.candidate], known)
        case Evolved():
            _require_known(event.admitted, known)
        case Evaluated():
            _require_known([event.candidate], known)
            if event.headline is not None and event.headline.name not in event.metrics:
                raise ValueError(f"metrics: {event.headline.name} is missing")
            if event.rollouts < 0:
                raise ValueError(f"rollouts: {event.rollouts}")


def _add(candidate: str, known: set[str]) -> None:
    if candidate in known:
        raise ValueError(f"candidate {candidate!r} is there already")
    known.add(candidate)


def _require_known(candidates: Iterable[str], known: set[str]) -> None:
    for candidate in candidates:
        if candidate not in known:
            raise ValueError(f"candidate {candidate!r} was never seeded or proposed")
