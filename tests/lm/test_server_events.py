"""Server-sent events in every lawful form, cut anywhere."""

from __future__ import annotations

import pytest

from evoprompt.lm import events as server_events
from evoprompt.lm.events import EventReader, ServerEvent
from evoprompt.support.errors import LmError

TWO = [b'{"a": 1}', b"[DONE]"]
PLAIN = b'data: {"a": 1}\n\ndata: [DONE]\n\n'
FORMS = {
    "plain": PLAIN,
    "CR LF": PLAIN.replace(b"\n", b"\r\n"),
    "CR": PLAIN.replace(b"\n", b"\r"),
    "mixed ends": b'data: {"a": 1}\r\n\ndata: [DONE]\n\r',
    "byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "no space": PLAIN.replace(b"data: ", b"data:"),
    "no last line end": PLAIN.rstrip(b"\n"),
    "several data lines": b'data: {"a":\ndata: 1}\n\ndata: [DONE]\n\n',
    "other fields": b"id: 7\nretry: 3000\nunknown: x\nwithout\n" + PLAIN,
    "comments": b": ping\n\n" + PLAIN + b": end\n\n",
    "empty data": b"data:\n\ndata\n\n" + PLAIN,
}


def read(content: bytes, size: int) -> list[ServerEvent]:
    reader = EventReader()
    events: list[ServerEvent] = []
    for start in range(0, len(content), size):
        events += reader.read(content[start : start + size])
    return events + reader.end()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("name", FORMS)
def test_every_lawful_form_is_read(name: str, size: int) -> None:
    events = read(FORMS[name], size)
    data = [event.data.replace(b"\n", b" ") for event in events if event.data.strip()]
    assert data == TWO
    assert b"".join(event.raw for event in events) == FORMS[name]


def test_an_event_has_its_name() -> None:
    events = read(b"event: error\ndata: x\n\ndata: y\n\n", 1000)
    assert [(event.name, event.data) for event in events] == [(b"error", b"x"), (b"", b"y")]


@pytest.mark.parametrize("piece", [b"x" * 2**16, b"data: x\n" * 2**13])
def test_an_event_without_end_is_refused(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_events, "MAX_EVENT_BYTES", 2**20)
    with pytest.raises(LmError, match="more than 1,048,576 bytes"):
        read(piece * 17, len(piece))
