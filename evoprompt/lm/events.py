"""Reader of server-sent events, defined by the standard of WHATWG, while their bytes come."""

from __future__ import annotations

import re
from typing import NamedTuple

from evoprompt.support.errors import LmError

MAX_EVENT_BYTES = 2**24
"""Bytes of one event; a longer event is refused, as there is no other limit."""

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    """One event of a stream.

    Attributes:
        name: value of its field ``event``.
        data: values of its fields ``data``, one a line; empty for comments and heartbeats.
        raw: all of its bytes, with the empty line that ends it.
    """

    name: bytes
    data: bytes
    raw: bytes


class EventReader:
    """Reader of a stream of events, wherever its bytes are cut.

    Lines end with LF, CR or CR LF; a byte order mark at the start is no part of a line. The bytes
    of all events together are those of the stream.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of a line without its end yet
        self._raw: list[bytes] = []  # lines of the event without its end yet
        self._data: list[bytes] = []
        self._name = b""
        self._size = 0
        self._is_at_start = True
        self._is_after_return = False

    def read(self, piece: bytes) -> list[ServerEvent]:
        """Return the events that end in the next bytes.

        Raises:
            LmError: an event is longer than any answer.
        """
        self._size += len(piece)
        if self._is_after_return and piece[:1] == b"\n":  # the second half of CR LF
            self._raw.append(b"\n")
            piece, self._is_after_return = piece[1:], False
        self._is_after_return &= not piece
        events: list[ServerEvent] = []
        if b"\n" in piece or b"\r" in piece:
            content, end = b"".join([*self._pieces, piece]), 0
            for line in _LINE.finditer(content):
                end = line.end()
                self._read_line(line.group(), events)
            self._is_after_return = content.endswith(b"\r")
            self._pieces = [content[end:]]
            self._size = sum(map(len, self._raw)) + len(content) - end
        elif piece:
            self._pieces.append(piece)
        if self._size > MAX_EVENT_BYTES:
            raise LmError(
                f"an event of the stream has more than {MAX_EVENT_BYTES:,} bytes; required: a "
                "server that ends its lines"
            )
        return events

    def end(self) -> list[ServerEvent]:
        """Return the last event if the server omitted its end; else an empty list."""
        events: list[ServerEvent] = []
        if any(self._pieces):
            self._read_line(b"".join(self._pieces), events)
            self._pieces = []
        if self._raw:
            self._finish(events)
        return events

    def _read_line(self, line: bytes, events: list[ServerEvent]) -> None:
        self._raw.append(line)
        content = line.rstrip(b"\r\n")
        if self._is_at_start:
            self._is_at_start = False
            content = content.removeprefix(_BYTE_ORDER_MARK)
        if not content:
            self._finish(events)
            return
        name, _, value = content.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._name = value.removeprefix(b" ")

    def _finish(self, events: list[ServerEvent]) -> None:
        events.append(ServerEvent(self._name, b"\n".join(self._data), b"".join(self._raw)))
        self._raw, self._data, self._name, self._size = [], [], b"", 0
