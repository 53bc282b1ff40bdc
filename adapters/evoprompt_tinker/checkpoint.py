"""The engine's state beside the cookbook's checkpoints.

The cookbook keeps weights on its server and a line for each checkpoint in ``checkpoints.jsonl``,
written when they are saved. The engine's state is written before, when the batch of that step has
been rewarded, under the number of the step: so a line never stands without its state, and a state
without its line is never read.
"""

from __future__ import annotations

from pathlib import Path

from tinker_cookbook.checkpoint_utils import get_last_checkpoint

from evoprompt.hosting.binding import Binding
from evoprompt.support.errors import StateError
from evoprompt.support.storage import checkpoints, remove
from evoprompt_tinker.host import HostConfig

FOLDER = "evoprompt"
"""Where the states are, in the ``log_path`` of a training."""

PREFIX = "step_"
"""How their folders are named, before the number of the step."""

_ROLLING = 2  # the newest, and the one before while that is still being saved


class CookbookCheckpoint:
    """Saves and restores the engine at the steps at which the cookbook does so with its weights.

    Args:
        config: of the training.
        binding: its engine is saved and restored.
    """

    def __init__(self, config: HostConfig, binding: Binding) -> None:
        self._config = config
        self._binding = binding
        self._folder = Path(config.log_path) / FOLDER

    def resume(self) -> int:
        """Restore the engine, and return the step at which the training begins.

        Raises:
            StateError: the checkpoint holds no step.
        """
        record = get_last_checkpoint(self._config.log_path)
        if record is None:
            self._binding.load(None)
            return 0
        step: int | None = record.batch
        if step is None:
            raise StateError(
                f"the last checkpoint in {self._config.log_path} has no number of a batch; "
                "required: one that rl.train.main saved; start in another log_path"
            )
        self._binding.load(self._folder / f"{PREFIX}{step}")
        return step

    def save(self, step: int, end: int) -> None:
        """Write the state if the cookbook will save its own after the same step.

        Args:
            step: steps done.
            end: steps of the whole training.
        """
        is_permanent = step == end or self._every(step, self._config.save_every)
        if not is_permanent and not self._every(step, self._config.rolling_save_every):
            return
        with self._binding.save(self._folder / f"{PREFIX}{step}"):
            pass  # the weights are on the server
        if not is_permanent:
            self._remove_rolling()

    def _remove_rolling(self) -> None:
        """Remove the previous rolling checkpoint, of which the cookbook keeps one."""
        rolling = [
            folder
            for folder in checkpoints(self._folder, PREFIX)
            if not self._every(int(folder.name.removeprefix(PREFIX)), self._config.save_every)
        ]
        for folder in rolling[:-_ROLLING]:
            remove(folder)

    @staticmethod
    def _every(step: int, steps: int) -> bool:
        return steps > 0 and step % steps == 0
