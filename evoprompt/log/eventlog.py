"""Event log of a run: its events, each as a line of JSON, in a file or in memory.

It is the single source of the report, the live display and the resume check: nothing in it
depends on time or machine, so that a run and its resumed twin write the same lines.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from evoprompt.log.events import Event, Notice
from evoprompt.support.credentials import masked_texts
from evoprompt.support.errors import InputError, warn
from evoprompt.support.storage import LineFile

# JSON does not escape these, but str.splitlines takes them for the end of a line.
_LINE_SEPARATORS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

Listener = Callable[[Event], None]


class EventLog:
    """Append-only list of events, in a JSON-lines file or, without a path, in memory.

    Args:
        path: file to append to, created with the first event; None keeps events in memory. A
            last line cut short by a kill or a full disk is left out, and overwritten by the next
            event.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._lines: list[str] = []  # lines of a log without a file; a file is not held in memory
        self._file = None if path is None else LineFile(path)
        self._length = sum(1 for _ in self._file or ())
        self._listeners: list[Listener] = []
        self._moved = self._to_resume = False
        self._last_step = 0
        self._reported_waits: set[str] = set()
        self._first: list[bytes] = []  # lines of a training that may still begin again in its file

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the events as JSON objects, oldest first."""
        lines = self._lines if self._file is None else islice(self._file, self._length)
        return map(json.loads, lines)

    def subscribe(self, listener: Listener) -> None:
        """Call ``listener`` with every event from now on."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Stop calling ``listener``."""
        self._listeners.remove(listener)

    def append(self, event: Event) -> None:
        """Append ``event``, write it to the file and pass it to the listeners.

        Credentials in its texts, which servers may echo, are masked.

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
        self._last_step = event.step
        self._notify_listeners(event)

    def notice(self, step: int, message: str, stacklevel: int = 2) -> None:
        """Report a problem to the user, as an event and as a warning.

        Args:
            step: the engine step.
            message: the problem, and what the user can do about it.
            stacklevel: as of ``warnings.warn``: 2 for the caller of this method.
        """
        self.append(Notice(step, message))
        warn(message, stacklevel + 1)

    def report_wait(self, message: str, is_warning: bool = True) -> None:
        """Report, once, what the run waits for: to the listeners and as a warning.

        The log does not contain it, as it depends on the clock.

        Args:
            message: what does not return, and what the user can do about it.
            is_warning: whether to warn; not where a listener warns of every notice.
        """
        if message not in self._reported_waits:
            self._reported_waits.add(message)
            self.show(Notice(self._last_step, message))
            if is_warning:
                warn(message)

    def show(self, event: Event) -> None:
        """Pass ``event`` to the listeners without storing it.

        This is for events that depend on the clock, which the log does not contain. A separate
        thread calls this while training waits for a user.
        """
        self._notify_listeners(_without_credentials(event))

    def _notify_listeners(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def move_to(self, path: Path) -> None:
        """Write events to a file from now on, including those that are in memory.

        If the file holds events, it belongs to a training that should be resumed: events in memory
        are dropped, and none is added before :meth:`rewind`.

        Raises:
            OSError: the file cannot be read or written.
        """
        file = LineFile(path)
        existing_lines = list(file)
        lines = [(line + "\n").encode("utf-8", "backslashreplace") for line in self._lines]
        for line in () if existing_lines else lines:
            file.append(line)
        self.path, self._file, self._lines = path, file, []
        self._length = len(existing_lines or lines)
        self._moved = True
        # With equal lines, that training ended before its first step.
        self._to_resume = existing_lines not in ([], lines)
        self._first = lines

    def begin_anew(self) -> Path | None:
        """Set aside the events of a training that is not resumed, and begin the file again.

        Returns:
            Path of the older events; None if there were none, or they were resumed.

        Raises:
            OSError: the file cannot be renamed or written.
        """
        if not self._to_resume or self.path is None:
            return None
        numbers = itertools.count(1)
        names = (f"{self.path.stem}.previous-{number}{self.path.suffix}" for number in numbers)
        paths = (self.path.with_name(name) for name in names)
        aside = next(path for path in paths if not path.exists())
        self.path.rename(aside)
        self._file = LineFile(self.path)
        for line in self._first:
            self._file.append(line)
        self._length, self._to_resume = len(self._first), False
        return aside

    @property
    def is_to_resume(self) -> bool:
        """Return whether the log was moved to the file of a training that is not resumed yet."""
        return self._to_resume

    @property
    def fingerprint(self) -> str:
        """Return a digest of all events if the log was moved to a file; empty otherwise."""
        return self._file.fingerprint(self._length) if self._file and self._moved else ""

    def require(self, length: int, fingerprint: str) -> None:
        """Require that a log that was moved begins with the expected events.

        Args:
            length: number of events at a checkpoint.
            fingerprint: digest of these events.

        Raises:
            InputError: the log begins with different events.
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
        """Drop all but the first ``length`` events: those that came after a checkpoint.

        Warn if a file holds fewer: it lost events that the checkpoint was saved after.
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
        """Wait until the file is on the disk, so that no checkpoint is newer than its events."""
        if self.path is not None and self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())


def _without_credentials(event: Event) -> Event:
    """Return ``event`` with its texts masked, except an instruction, which stays as it is used."""
    names = {field.name for field in fields(event)} - {"components"}
    return replace(event, **masked_texts({name: getattr(event, name) for name in names}))


def to_line(event: Event | Mapping[str, Any]) -> str:
    """Return ``event`` as one line of JSON, for any texts in it.

    Raises:
        ValueError: the event holds a NaN or an infinity.
    """
    text = _ENCODER.encode(event.to_json() if isinstance(event, Event) else event)
    return text if text.isascii() else text.translate(_LINE_SEPARATORS)
