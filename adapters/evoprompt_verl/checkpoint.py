"""The engine's state inside veRL's own ``global_step_N`` folders.

veRL resumes from the folder that ``latest_checkpointed_iteration.txt`` names. It writes that file
last, but not at once, so that a kill can leave it empty; before a resume it is made to name the
newest folder that is complete, which is one with our file under its final name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig, open_dict

from evoprompt.support.storage import (
    STATE_FILE,
    checkpoints,
    mend,
    remove,
    require_whole,
    write_whole,
)
from evoprompt.support.trainer_files import require_readable

PREFIX = "global_step_"
"""How veRL names its folders, before the number of the step."""

_OLDER = "resume from an older checkpoint"  # remedy for a damaged one
TRACKER = "latest_checkpointed_iteration.txt"
"""veRL's file with the number of the step to resume from."""

_KEPT = ("max_actor_ckpt_to_keep", "max_critic_ckpt_to_keep")
_REMOVE = "remove_previous_ckpt_in_save"


class StepFolders:
    """Where one veRL run keeps its checkpoints.

    Args:
        trainer: the section ``trainer`` of veRL's configuration.
    """

    def __init__(self, trainer: DictConfig) -> None:
        self._trainer = trainer

    @property
    def _root(self) -> Path:
        return Path(self._trainer.default_local_dir)

    @contextmanager
    def replacing(self, step: int) -> Iterator[Path]:
        """Yield the folder of the checkpoint of ``step``, for the body to write.

        If one checkpoint is kept, the last one is removed afterwards.
        """
        folder = self._root / f"{PREFIX}{step}"
        with self._keeping_the_last() as alone:
            yield folder
        if alone:
            for older in checkpoints(self._root, PREFIX):
                if older != folder and (older / STATE_FILE).exists():
                    remove(older)

    @contextmanager
    def _keeping_the_last(self) -> Iterator[bool]:
        """Keep the last checkpoint until this one is complete.

        If one checkpoint is kept, veRL removes the last one as soon as the workers have saved.
        Yield whether one is kept.
        """
        before = {name: self._trainer.get(name) for name in (*_KEPT, _REMOVE)}
        alone = before[_KEPT[0]] == 1 or bool(before[_REMOVE])
        if alone:
            self._set({**dict.fromkeys(_KEPT, 2), _REMOVE: False})
        try:
            yield alone
        finally:
            if alone:
                self._set(before)

    def _set(self, values: Mapping[str, int | bool | None]) -> None:
        with open_dict(self._trainer):
            for name, value in values.items():
                self._trainer[name] = value

    def mend(self) -> None:
        """Remove incomplete checkpoints, so that veRL resumes from the newest complete one.

        Call it before veRL looks for one. Checkpoints without an engine are left alone.

        Raises:
            StateError: the named folder is an incomplete checkpoint, or a file of the trainer in
                the folder to resume from is damaged.
        """
        if self._trainer.resume_mode == "resume_path":
            named = Path(self._trainer.resume_from_path)
            require_whole(named)
            require_readable(named, _OLDER)
        if self._trainer.resume_mode != "auto":
            return
        whole = mend(self._root, PREFIX)
        tracker = self._root / TRACKER
        if tracker.exists() and _named_by(tracker).is_dir():
            require_readable(_named_by(tracker), _OLDER)
            return
        complete = [folder for folder in whole if (folder / STATE_FILE).exists()]
        if complete:  # also where the folder of a step alone was copied here
            require_readable(complete[-1], _OLDER)
            write_whole(tracker, complete[-1].name.removeprefix(PREFIX))
        else:
            tracker.unlink(missing_ok=True)

    def resumed(self, step: int) -> Path:
        """Return the state of the checkpoint from which a run at ``step`` continued."""
        if self._trainer.resume_mode == "resume_path":
            return Path(self._trainer.resume_from_path)
        return self._root / f"{PREFIX}{step}"


def _named_by(tracker: Path) -> Path:
    return tracker.with_name(f"{PREFIX}{tracker.read_text(errors='replace').strip()}")
