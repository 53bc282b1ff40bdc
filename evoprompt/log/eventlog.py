"""The log of a run: its events, a line of JSON each, in a file or in memory.

It is the single source of the report, the live display and the resume check: nothing in it
depends on time or machine, so that a run and its resumed twin write the same lines.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from evoprompt.log.events import Event, Notice
from evoprompt.support.errors import InputError, warn
from evoprompt.support.storage import LineFile
from evoprompt.support.text import masked

# JSON does not escape these, but str.splitlines takes them for the end of a line.
_LINE_SEPARATORS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

Listener = Callable[[Event], None]


class EventLog:
    """An append-only list of events, in a JSON-lines file or, without one, in memory.

    Args:
        path: file to append to, created when the first event comes; None keeps them in memory. A
            last line cut short by a kill or a full disk is left out, and overwritten by the next
            event.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._lines: list[str] = []  # of a log without a file; a file is not held in memory
        self._file = None if path is None else LineFile(path)
        self._length = sum(1 for _ in self._file or ())
        self._listeners: list[Listener] = []
        self._moved = self._to_resume = False
        self._first: list[bytes] = []  # of a training that may yet begin anew in its file

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The events as JSON objects, oldest first."""
        lines = self._lines if self._file is None else islice(self._file, self._length)
        return map(json.loads, lines)

    def subscribe(self, listener: Listener) -> None:
        """Calls ``listener`` with every event from now on."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Calls ``listener`` no more."""
        self._listeners.remove(listener)

    def append(self, event: Event) -> None:
        """Adds ``event``, writes it to the file and tells the listeners.

        Credentials in what was said about it, as servers echo them, are masked.

        Raises:
            ValueError: the event holds a NaN or an infinity.
            OSError: the file cannot be written; the log is as it was before the call.
            InputError: the log was moved to the file of a training that has not been resumed.
        """
        if self._to_resume:
            raise InputError(
                f"{self.path} holds {self._length} events of a training, and this one begins anew; "
                "required: a resume from its checkpoint, or an empty folder; resume it, name "
                "another log_dir, or remove this one"
            )
        event = _without_credentials(event)
        line = to_line(event)
        if self._file is None:
            self._lines.append(line)
        else:
            self._file.append((line + "\n").encode("utf-8", "backslashreplace"))
        self._length += 1
        self._tell(event)

    def notice(self, step: int, message: str, stacklevel: int = 2) -> None:
        """Says something that a person should know, as an event and as a warning.

        Args:
            step: the engine step.
            message: what to know, and what to do about it.
            stacklevel: as of ``warnings.warn``: 2 for the caller of this method.
        """
        self.append(Notice(step, message))
        warn(message, stacklevel + 1)

    def show(self, event: Event) -> None:
        """Tells the listeners and keeps nothing: what depends on the clock is not in the log.

        Comes from a thread of its own where training waits for somebody.
        """
        self._tell(_without_credentials(event))

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def move_to(self, path: Path) -> None:
        """Keeps events in a file from now on, those in memory so far included.

        A file that holds events is of a training that is to be resumed: those in memory are
        dropped, and nothing is added before :meth:`rewind`.

        Raises:
            OSError: the file cannot be read or written.
        """
        file = LineFile(path)
        held = list(file)
        lines = [(line + "\n").encode("utf-8", "backslashreplace") for line in self._lines]
        for line in () if held else lines:
            file.append(line)
        self.path, self._file, self._lines = path, file, []
        self._length = len(held or lines)
        self._moved = True
        self._to_resume = held not in ([], lines)  # the latter: it ended before its first step
        self._first = lines

    def begin_anew(self) -> Path | None:
        """Sets aside what the file holds of a training that is not resumed, and begins it again.

        Returns:
            Where the older events are now; None where there were none, or they were resumed.

        Raises:
            OSError: the file cannot be renamed or written.
        """
        if not self._to_resume or self.path is None:
            return None
        numbers = itertools.count(1)
        names = (f"{self.path.stem}.previous-{number}{self.path.suffix}" for number in numbers)
        aside = next(
            one for one in (self.path.with_name(name) for name in names) if not one.exists()
        )
        self.path.rename(aside)
        self._file = LineFile(self.path)
        for line in self._first:
            self._file.append(line)
        self._length, self._to_resume = len(self._first), False
        return aside

    @property
    def is_to_resume(self) -> bool:
        """Whether it was moved to the file of a training that has not been resumed yet."""
        return self._to_resume

    @property
    def fingerprint(self) -> str:
        """Digest of all events, where the log was moved to a file; empty for any other."""
        return self._file.fingerprint(self._length) if self._file and self._moved else ""

    def require(self, length: int, fingerprint: str) -> None:
        """Makes sure that a log that was moved begins with the events that are meant.

        Args:
            length: how many there were at a checkpoint.
            fingerprint: of those.

        Raises:
            InputError: these are others.
        """
        if self._file is None or not self._moved:
            return
        if length > self._length or self._file.fingerprint(length) != fingerprint:
            raise InputError(
                f"{self.path} does not begin with the {length} events that the checkpoint was "
                "saved after; required: the log_dir of the training that is resumed; name that, "
                "or resume without log_dir"
            )

    def rewind(self, length: int) -> None:
        """Drops all but the first ``length`` events: what was done past a checkpoint.

        Warns if a file holds fewer: it lost events that the checkpoint was saved after.
        """
        if self.path is not None and length > self._length:
            warn(
                f"{self.path} holds {self._length} events, fewer than the {length} that were "
                "there at the checkpoint: some were lost, and the report will lack them"
            )
        self._to_resume = False
        if length >= self._length:
            return
        del self._lines[length:]
        self._length = length
        if self._file is not None:
            self._file.keep(length)

    def sync(self) -> None:
        """Waits until the file is on the disk, so that no checkpoint is newer than its events."""
        if self.path is not None and self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())


def _without_credentials(event: Event) -> Event:
    """``event`` with its texts masked; an instruction stays as it is used."""
    names = {field.name for field in fields(event)} - {"components"}
    return replace(event, **{name: _masked(getattr(event, name)) for name in names})


def _masked(value: Any) -> Any:
    """``value`` with every text in it masked."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, tuple):
        return tuple(map(_masked, value))
    if isinstance(value, Mapping):
        return {name: _masked(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return replace(value, **{name: _masked(getattr(value, name)) for name in names})
    return value


def to_line(event: Event | Mapping[str, Any]) -> str:
    """``event`` as one line of JSON, whatever its texts hold.

    Raises:
        ValueError: it holds a NaN or an infinity.
    """
    text = _ENCODER.encode(event.to_json() if isinstance(event, Event) else event)
    return text if text.isascii() else text.translate(_LINE_SEPARATORS)
