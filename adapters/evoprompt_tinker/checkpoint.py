"""The engine's state beside the cookbook's checkpoints.

The cookbook keeps weights on its server and a line for each checkpoint in ``checkpoints.jsonl``,
written when they are saved. The engine's state is written before, when the batch of that step has
been rewarded, under the number of the step: so a line never stands without its state, and a state
without its line is never read.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from tinker_cookbook.checkpoint_utils import get_last_checkpoint

from evoprompt.binding import Binding
from evoprompt.errors import StateError
from evoprompt.events import Notice
from evoprompt.storage import load_state, save_state
from evoprompt_tinker.host import HostConfig

FOLDER = "evoprompt"
"""Where the states are, in the ``log_path`` of a training."""

_ROLLING = 2  # the newest, and the one before while that is still being saved


class EngineCheckpoint:
    """Saves and restores the engine at the steps at which the cookbook does so with its weights.

    Args:
        config: of the training.
        binding: its engine is saved and restored.
    """

    def __init__(self, config: HostConfig, binding: Binding) -> None:
        self._config = config
        self._binding = binding
        self._engine = binding.engine
        self._folder = Path(config.log_path) / FOLDER

    def resume(self) -> int:
        """The step at which the training begins, with the engine as it was then.

        Raises:
            StateError: the checkpoint does not say of which step it is.
        """
        record = get_last_checkpoint(self._config.log_path)
        if record is None:
            self._binding.begin_anew()
            return 0
        step: int | None = record.batch
        if step is None:
            raise StateError(
                f"the last checkpoint in {self._config.log_path} has no number of a batch; "
                "required: one that rl.train.main saved; start in another log_path"
            )
        path = self._path(step)
        if path.exists():
            self._engine.load_state_dict(load_state(path))
            return step
        self._binding.begin_anew()
        message = (
            f"checkpoint {record.name} has no {FOLDER}/{path.name} beside it: it was saved without "
            "an engine attached; the policy resumes, the population starts afresh"
        )
        self._engine.log.append(Notice(self._engine.step, message))
        warnings.warn(message, stacklevel=2)
        return step

    def save(self, step: int, end: int) -> None:
        """Writes the state if the cookbook will save its own after the same step.

        Args:
            step: steps done.
            end: steps of the whole training.
        """
        if step == end or self._every(step, self._config.save_every):
            save_state(self._path(step), self._engine.state_dict())
        elif self._every(step, self._config.rolling_save_every):
            save_state(self._path(step), self._engine.state_dict())
            self._remove_rolling()

    def _remove_rolling(self) -> None:
        """The cookbook keeps one rolling checkpoint."""
        rolling = [
            path
            for path in sorted(self._folder.glob("*.json"))
            if not self._every(int(path.stem), self._config.save_every)
        ]
        for path in rolling[:-_ROLLING]:
            path.unlink()

    def _every(self, step: int, cadence: int) -> bool:
        return cadence > 0 and step % cadence == 0

    def _path(self, step: int) -> Path:
        return self._folder / f"{step:06d}.json"
