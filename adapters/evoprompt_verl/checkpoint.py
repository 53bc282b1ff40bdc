"""The engine's state inside veRL's own ``global_step_N`` folders.

It is written *before* veRL saves anything: veRL's marker (``latest_checkpointed_iteration.txt``)
comes last and so never names a step without its engine state, whenever the process dies.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from omegaconf import DictConfig
from pydantic import JsonValue

from evoprompt.checkpoint import STATE_FILE, load_state, save_state
from evoprompt.errors import StateError

VERSION = 1
"""Version of the saved form; another one is refused."""


class StepFolders:
    """Where one veRL run keeps its checkpoints.

    Args:
        trainer: the section ``trainer`` of veRL's configuration.
    """

    def __init__(self, trainer: DictConfig) -> None:
        self._trainer = trainer

    def save(self, step: int, state: dict[str, JsonValue]) -> None:
        """Writes ``state`` for the checkpoint of ``step``, also to a remote directory if set.

        A remote directory that cannot be written to is warned of and costs nothing else, as with
        veRL's own files.
        """
        folder = Path(self._trainer.default_local_dir) / f"global_step_{step}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / STATE_FILE
        save_state(path, {"version": VERSION, "global_step": step, **state})
        remote = self._trainer.get("default_hdfs_dir")
        if remote:
            from verl.utils import fs

            target = f"{remote}/{folder.name}"
            fs.makedirs(target, exist_ok=True)
            # A path for a local directory; for HDFS, whether its command line succeeded.
            if fs.copy(str(path), f"{target}/{STATE_FILE}") is False:
                warnings.warn(f"{path} could not be copied to {target}", stacklevel=2)

    def load(self, step: int) -> dict[str, JsonValue] | None:
        """The state saved with the checkpoint of ``step``; None if it was saved without.

        Raises:
            StateError: the file is broken, of another version or of another step.
        """
        path = self._resumed(step) / STATE_FILE
        if not path.exists():
            return None
        state = load_state(path)
        found = (state.pop("version", None), state.pop("global_step", None))
        if found != (VERSION, step):
            raise StateError(
                f"{path} has version {found[0]!r} and was saved at step {found[1]!r}; required: "
                f"version {VERSION} and step {step}; resume from another checkpoint, or remove "
                "the file to let the population start afresh"
            )
        return state

    def _resumed(self, step: int) -> Path:
        if self._trainer.resume_mode == "resume_path":
            return Path(self._trainer.resume_from_path)
        return Path(self._trainer.default_local_dir) / f"global_step_{step}"
