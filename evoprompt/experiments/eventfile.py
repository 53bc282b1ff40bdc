"""Reader of a log of events, which refuses lines that no run writes: a file may be damaged.

Every field of an event is there, of its type and finite. Whether an event can follow those before
it is seen by :class:`~evoprompt.experiments.history.TrainingHistory`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evoprompt.log.events import KINDS, Event
from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error

_ADAPTERS: Mapping[str, TypeAdapter[Event]] = {kind.kind: TypeAdapter(kind) for kind in KINDS}
_NEW_KINDS = {
    "asked": "questions_assigned",
    "told": "step_completed",
    "shown": "rollout_samples",
    "differed": "candidates_disagreed",
    "best": "incumbent_changed",
}
"""Kinds of events of this version, by their names in earlier versions."""
_NEW_FIELDS = {
    "evaluated": {"headline": "main_metric", "by_stratum": "by_kind"},
    "pruned": {"dropped": "candidates", "kept": "members"},
    "sentences": {"found": "values"},
}
"""Fields of events of this version, by their names in earlier versions."""
_LARGEST_STEP = 1_000_000_000
_LARGEST = 1e100  # of any number; statistics still square it


class RenamedEventError(ValueError):
    """A line has the name of an event, or of a field, of an earlier version."""


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events in a JSON-lines file, oldest first; none if the file does not exist.

    A last line that a kill cut short is left out. A field that older versions did not write has its
    default.

    Raises:
        InputError: another line is no event, or of an earlier version; names the file and the line.
    """
    if not path.exists():
        return
    with path.open("rb") as file:  # as text, other characters would end a line, too
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                event = event_of(line)
            except RenamedEventError as error:
                raise InputError(
                    f"{path}:{number} is of an earlier version of evoprompt ({error}); required: "
                    "events of this version; read the file with the evoprompt that wrote it"
                ) from error
            except (ValueError, RecursionError) as error:
                raise damage_error(path, number, format_error(error)) from error
            yield event.to_json()


def damage_error(path: Path, number: int, reason: str) -> InputError:
    """Return the error of a log with an unusable line ``number``."""
    return InputError(
        f"{path}:{number} is no event ({reason}); required: one JSON object a line, as it was "
        "written; fix or delete the line"
    )


def event_of(line: bytes | str) -> Event:
    """Return the event in ``line``.

    Raises:
        RenamedEventError: the line has a name of an earlier version.
        ValueError: the line is no event.
    """
    fields = json.loads(line, parse_float=_number, parse_int=_whole, parse_constant=_number)
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    kind = fields.get("event")
    if not isinstance(kind, str) or kind not in _ADAPTERS:
        if kind in _NEW_KINDS:
            raise RenamedEventError(f"the event {kind!r} is called {_NEW_KINDS[kind]!r} now")
        raise ValueError(f"unknown event {kind!r}; known: {', '.join(_ADAPTERS)}")
    for field, new_field in _NEW_FIELDS.get(kind, {}).items():
        if field in fields:
            raise RenamedEventError(
                f"the field {field!r} of the event {kind!r} is called {new_field!r} now"
            )
    try:
        event = _ADAPTERS[kind].validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if not 0 <= event.step <= _LARGEST_STEP:
        raise ValueError(f"step {event.step}")
    return event


def _number(text: str) -> float:
    value = float(text)
    if not abs(value) <= _LARGEST:  # nor NaN
        raise ValueError(f"holds {text:.9}, which is no number up to {_LARGEST:g}")
    return value


def _whole(text: str) -> int:
    _number(text)
    return int(text)
