from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evoprompt_trl.checkpoint import EngineCheckpoint

import evoprompt
from evoprompt.checkpoint import STATE_FILE
from evoprompt.errors import StateError


def engine() -> evoprompt.Engine:
    return evoprompt.Engine(["be brief"])


def moved_on(found: evoprompt.Engine) -> evoprompt.Engine:
    for _ in range(3):
        found.tell([])
    return found


def call(moment: Any, directory: Path, *, step: int = 2, leads: bool = True) -> None:
    state = SimpleNamespace(global_step=step, is_world_process_zero=leads)
    moment(SimpleNamespace(output_dir=str(directory)), state, SimpleNamespace())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    (tmp_path / "checkpoint-2").mkdir()
    call(EngineCheckpoint(moved_on(engine())).on_save, tmp_path)
    return tmp_path


@pytest.mark.parametrize("asked", [True, "path"])
def test_what_was_saved_is_restored(saved: Path, asked: Any) -> None:
    fresh = engine()
    checkpoint = EngineCheckpoint(fresh)
    checkpoint.resume_from = str(saved / "checkpoint-2") if asked == "path" else asked
    call(checkpoint.on_train_begin, saved)
    assert fresh.step == 3


@pytest.mark.parametrize("asked", [None, False])
def test_a_new_run_restores_nothing(saved: Path, asked: bool | None) -> None:
    fresh = engine()
    checkpoint = EngineCheckpoint(fresh)
    checkpoint.resume_from = asked
    call(checkpoint.on_train_begin, saved)
    assert fresh.step == 0


def test_restoring_is_done_once(saved: Path) -> None:
    fresh = engine()
    checkpoint = EngineCheckpoint(fresh)
    checkpoint.resume_from = True
    call(checkpoint.on_train_begin, saved)
    moved_on(fresh)
    call(checkpoint.on_train_begin, saved)
    assert fresh.step == 6


def test_only_rank_0_touches_engine_and_file(saved: Path) -> None:
    (saved / "checkpoint-4").mkdir()
    fresh = engine()
    checkpoint = EngineCheckpoint(fresh)
    checkpoint.resume_from = True
    call(checkpoint.on_train_begin, saved, leads=False)
    call(checkpoint.on_save, saved, step=4, leads=False)
    assert fresh.step == 0
    assert not (saved / "checkpoint-4" / STATE_FILE).exists()


def test_a_checkpoint_without_an_engine_is_said_to_be_one(tmp_path: Path) -> None:
    fresh = engine()
    checkpoint = EngineCheckpoint(fresh)
    checkpoint.resume_from = True
    with pytest.warns(UserWarning, match="checkpoint-2 holds no"):
        call(checkpoint.on_train_begin, tmp_path)
    assert [event["event"] for event in fresh.log] == ["seeded", "notice"]


def test_a_broken_state_stops_the_run(saved: Path) -> None:
    (saved / "checkpoint-2" / STATE_FILE).write_text("{")
    checkpoint = EngineCheckpoint(engine())
    checkpoint.resume_from = True
    with pytest.raises(StateError):
        call(checkpoint.on_train_begin, saved)
