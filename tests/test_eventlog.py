"""The log: one JSON object an event, kept in step with its file, rewound to a checkpoint."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import (
    Evaluated,
    Event,
    Evolved,
    Excerpt,
    Notice,
    Proposed,
    RolloutSamples,
    Verified,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "events.jsonl"


def written(path: Path) -> list[str]:
    return [json.loads(line)["message"] for line in path.read_text(encoding="utf-8").splitlines()]


def filled(path: Path | None, *messages: str) -> EventLog:
    log = EventLog(path)
    for message in messages:
        log.append(Notice(0, message))
    return log


def messages(log: EventLog) -> list[str]:
    return [event["message"] for event in log]


class TestInMemory:
    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_refuses_numbers_that_json_lacks_and_stays_as_it_was(self, value: float) -> None:
        log = filled(None, "before")
        heard: list[Event] = []
        log.subscribe(heard.append)
        with pytest.raises(ValueError, match="JSON compliant"):
            log.append(Evaluated(1, "test", "c0", 1, {"right": value}))
        assert messages(log) == ["before"]
        assert heard == []


class TestInAFile:
    def test_reading_alone_changes_nothing(self, path: Path) -> None:
        filled(path, "a")
        cut_short = path.read_bytes() + b'{"event": "noti'
        path.write_bytes(cut_short)
        assert messages(EventLog(path)) == ["a"]
        assert path.read_bytes() == cut_short

    @pytest.mark.parametrize("tail", [b'{"event": "not', b'{"message": "S\xc3', b"{}"])
    def test_overwrites_a_line_cut_short_by_a_kill(self, path: Path, tail: bytes) -> None:
        filled(path, "a")
        path.write_bytes(path.read_bytes() + tail)
        resumed = filled(path, "b")
        assert messages(resumed) == written(path) == ["a", "b"]

    def test_drops_from_the_file_what_came_after_a_checkpoint(self, path: Path) -> None:
        log = filled(path, "a", "b", "c")
        log.rewind(2)
        log.append(Notice(0, "d"))
        assert messages(log) == written(path) == ["a", "b", "d"]
        assert list(path.parent.iterdir()) == [path]
        log.rewind(0)
        assert path.read_bytes() == b""

    def test_each_event_is_written_at_once_and_a_full_disk_costs_one(self, path: Path) -> None:
        log = EventLog(path)
        for message in "abc":
            log.append(Notice(0, message))
            assert written(path)[-1] == message
        limit = path.stat().st_size + 3
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                log.append(Notice(0, "d"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert path.stat().st_size == limit
        log.append(Notice(0, "e"))
        assert messages(EventLog(path)) == messages(log) == written(path) == [*"abc", "e"]

    def test_says_that_events_were_lost(self, path: Path) -> None:
        filled(path, "a", "b")
        with pytest.warns(UserWarning, match="holds 2 events, fewer than the 3"):
            EventLog(path).rewind(3)

    @given(text=st.text(st.characters(codec=None), max_size=20) | st.just("a\x85b\u2028c\u2029d"))
    def test_carries_any_text_on_one_line(
        self, text: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        path = tmp_path_factory.mktemp("log") / "events.jsonl"
        filled(path, text, "next")
        assert written(path) == messages(EventLog(path)) == [text, "next"]


def test_what_was_said_about_it_holds_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, heard = EventLog(tmp_path / "events.jsonl"), list[Event]()
    log.subscribe(heard.append)
    key = "sk-abcdefgh1234"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    log.append(Proposed(1, "", {"instruction": "x"}, (), "p", f"used {key}", "rule", f"has {key}"))
    log.append(Verified(1, "c0", 1, None, None, 0, False, f"failed with {key}"))
    log.append(Evolved(1, 1, (), ("c0",), 0, f"refused {key}"))
    log.append(Notice(1, f"refused {key}"))
    log.append(RolloutSamples(1, (Excerpt("c0", "2+2?", "4", 0.0, (), f"got {key}"),)))
    log.show(Notice(1, f"waits for {key}"))
    assert len(heard) == 6
    assert key not in (tmp_path / "events.jsonl").read_text(encoding="utf-8") + str(heard)
