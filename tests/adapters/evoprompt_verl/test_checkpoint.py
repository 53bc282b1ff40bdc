"""The engine's state lies in veRL's own folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evoprompt_verl.checkpoint import StepFolders
from omegaconf import OmegaConf

from evoprompt.checkpoint import STATE_FILE
from evoprompt.errors import StateError


def folders(root: Path, **settings: Any) -> StepFolders:
    config = {"default_local_dir": str(root), "default_hdfs_dir": None, "resume_mode": "auto"}
    return StepFolders(OmegaConf.create({**config, **settings}))


def test_a_state_is_found_at_its_step_only(tmp_path: Path) -> None:
    folders(tmp_path).save(4, {"engine": {"step": 4}})
    assert folders(tmp_path).load(4) == {"engine": {"step": 4}}
    assert folders(tmp_path).load(6) is None
    assert (tmp_path / "global_step_4" / STATE_FILE).exists()


def test_a_named_checkpoint_is_resumed_from_where_it_lies(tmp_path: Path) -> None:
    folders(tmp_path / "old").save(4, {"engine": {}})
    named = str(tmp_path / "old" / "global_step_4")
    new = folders(tmp_path / "new", resume_mode="resume_path", resume_from_path=named)
    assert new.load(4) == {"engine": {}}


def test_a_remote_directory_gets_a_copy(tmp_path: Path) -> None:
    folders(tmp_path / "here", default_hdfs_dir=str(tmp_path / "there")).save(2, {"engine": {}})
    copied = json.loads((tmp_path / "there" / "global_step_2" / STATE_FILE).read_text())
    assert copied["global_step"] == 2


def test_a_remote_directory_that_takes_nothing_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no ``hdfs`` command, as here, veRL's own upload fails in the same way."""
    from verl.utils import hdfs_io

    monkeypatch.setattr(hdfs_io, "_HDFS_BIN_PATH", "false")
    saved = folders(tmp_path, default_hdfs_dir="hdfs://nowhere/run")
    with pytest.warns(UserWarning, match="could not be copied to hdfs://nowhere/run/global_step_2"):
        saved.save(2, {"engine": {}})
    assert saved.load(2) == {"engine": {}}


@pytest.mark.parametrize("change", [{"global_step": 3}, {"version": 0}])
def test_a_state_of_another_step_or_version_is_refused(
    tmp_path: Path, change: dict[str, int]
) -> None:
    folders(tmp_path).save(2, {"engine": {}})
    path = tmp_path / "global_step_2" / STATE_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(StateError, match="step 2"):
        folders(tmp_path).load(2)
