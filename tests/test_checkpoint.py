"""States are written whole or not at all, and read without executing anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import JsonValue

from evoprompt.support.errors import StateError
from evoprompt.support.storage import load_state, save_state, write_whole

STATE: dict[str, JsonValue] = {"step": 3, "text": "Søk først. \ud800", "weights": [0.1, 1e-300]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


def test_the_new_file_is_on_the_disk_before_it_replaces_the_old_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def watched_fsync(descriptor: int) -> None:
        steps.append(f"fsync of {os.fstat(descriptor).st_size} bytes")
        fsync(descriptor)

    def watched_replace(self: Path, target: Path) -> Path:
        steps.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    write_whole(path, "text")
    assert steps == ["fsync of 4 bytes", "replace"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_state_with_a_number_that_is_none_is_refused(path: Path, value: float) -> None:
    save_state(path, STATE)
    with pytest.raises(ValueError, match="JSON compliant"):
        save_state(path, {"weight": value})
    assert load_state(path) == STATE


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(StateError, match=r"state\.json: No such file"):
        load_state(path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'{"step": 3, "wei', "does not hold an engine state"),
        (b"", "does not hold an engine state"),
        (b"\xff\xfe", "does not hold an engine state"),
        (b"[1, 2]", "holds a list"),
        (b"\x80\x04}\x94.", "does not hold an engine state"),
    ],
)
def test_a_file_that_is_no_state_is_refused(path: Path, content: bytes, fault: str) -> None:
    path.write_bytes(content)
    with pytest.raises(StateError, match=fault):
        load_state(path)
