"""States are written whole or not at all, and read without executing anything."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pydantic import JsonValue

from evoprompt.support.errors import StateError
from evoprompt.support.storage import (
    STATE_FILE,
    checkpoints,
    is_half,
    load_state,
    mend,
    remove,
    save_state,
    saving,
    write_whole,
)

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


def test_a_folder_that_is_written_again_is_incomplete_meanwhile(tmp_path: Path) -> None:
    with saving(tmp_path, {"step": 1}):
        pass
    assert not is_half(tmp_path)
    with saving(tmp_path, {"step": 2}):
        assert not (tmp_path / STATE_FILE).exists()
        assert is_half(tmp_path)
    assert load_state(tmp_path / STATE_FILE) == {"step": 2}


def test_a_removal_that_is_cut_short_leaves_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoint-3"
    with saving(folder, {"step": 3}):
        pass

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            remove(folder)
    assert checkpoints(tmp_path, "checkpoint-") == []
    assert mend(tmp_path, "checkpoint-") == []
    assert not list(tmp_path.iterdir())
