"""The engine's state lies in veRL's own folders."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from evoprompt_verl.checkpoint import StepFolders
from omegaconf import OmegaConf

from evoprompt.support.errors import StateError
from evoprompt.support.storage import saving


def save(found: StepFolders, step: int) -> None:
    with found.replacing(step) as folder, saving(folder, {"step": step}):
        pass


def folders(root: Path, **settings: Any) -> StepFolders:
    config = {"default_local_dir": str(root), "default_hdfs_dir": None, "resume_mode": "auto"}
    return StepFolders(OmegaConf.create({**config, **settings}))


class TestMending:
    def tracker(self, root: Path) -> Path:
        return root / "latest_checkpointed_iteration.txt"

    def half(self, root: Path, step: int) -> None:
        """What a kill within the save of ``step`` leaves."""
        with (
            pytest.raises(KeyboardInterrupt),
            folders(root).replacing(step) as folder,
            saving(folder, {}),
        ):
            raise KeyboardInterrupt

    @pytest.mark.parametrize("tracked", ["2", "4", ""])
    def test_the_newest_complete_checkpoint_is_the_one_to_resume_from(
        self, tmp_path: Path, tracked: str
    ) -> None:
        save(folders(tmp_path), 2)
        self.half(tmp_path, 4)
        self.tracker(tmp_path).write_text(tracked)
        with pytest.warns(UserWarning, match="removed global_step_4"):
            folders(tmp_path).mend()
        assert self.tracker(tmp_path).read_text() == "2"
        assert [folder.name for folder in tmp_path.glob("global_step_*")] == ["global_step_2"]

    def test_a_checkpoint_that_was_copied_into_another_folder_is_resumed_from(
        self, tmp_path: Path
    ) -> None:
        save(folders(tmp_path / "first"), 2)
        copied = tmp_path / "second" / "global_step_2"
        shutil.copytree(tmp_path / "first" / "global_step_2", copied)
        folders(tmp_path / "second").mend()
        assert self.tracker(tmp_path / "second").read_text() == "2"

    def test_a_folder_without_any_checkpoint_stays_empty(self, tmp_path: Path) -> None:
        folders(tmp_path).mend()
        assert list(tmp_path.iterdir()) == []

    def test_without_a_complete_one_training_starts_afresh(self, tmp_path: Path) -> None:
        self.half(tmp_path, 2)
        self.tracker(tmp_path).write_text("")
        with pytest.warns(UserWarning, match="removed global_step_2"):
            folders(tmp_path).mend()
        assert list(tmp_path.iterdir()) == []

    def test_a_checkpoint_without_an_engine_is_left_alone(self, tmp_path: Path) -> None:
        save(folders(tmp_path), 2)
        (tmp_path / "global_step_4" / "actor").mkdir(parents=True)
        self.tracker(tmp_path).write_text("4\n")
        folders(tmp_path).mend()
        assert self.tracker(tmp_path).read_text() == "4\n"
        assert (tmp_path / "global_step_4" / "actor").exists()

    def test_half_a_checkpoint_that_was_named_is_refused(self, tmp_path: Path) -> None:
        self.half(tmp_path, 4)
        named = str(tmp_path / "global_step_4")
        with pytest.raises(StateError, match="global_step_4 is not complete"):
            folders(tmp_path, resume_mode="resume_path", resume_from_path=named).mend()
        assert (tmp_path / "global_step_4").exists()


@pytest.mark.parametrize(
    "settings", [{"max_actor_ckpt_to_keep": 1}, {"remove_previous_ckpt_in_save": True}]
)
def test_the_last_checkpoint_stays_until_the_next_is_complete(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """veRL, told to keep one, removes the last one before the next is whole."""
    found = folders(tmp_path, **settings)
    save(found, 2)
    with found.replacing(4) as folder, saving(folder, {}):
        assert found._trainer.max_actor_ckpt_to_keep == 2
        assert not found._trainer.remove_previous_ckpt_in_save
        assert (tmp_path / "global_step_2").exists()
    assert {name: found._trainer.get(name) for name in settings} == settings
    assert [folder.name for folder in tmp_path.iterdir()] == ["global_step_4"]
