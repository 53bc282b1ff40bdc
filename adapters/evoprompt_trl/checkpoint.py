"""The engine's state beside the trainer's own, in the same ``checkpoint-N`` folder."""

from __future__ import annotations

import warnings
from pathlib import Path

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evoprompt.checkpoint import STATE_FILE, load_state, save_state
from evoprompt.engine import Engine
from evoprompt.events import Notice


class EngineCheckpoint(TrainerCallback):
    """Saves and restores the engine whenever the trainer does so with itself.

    Attributes:
        resume_from: what ``trainer.train`` was told to resume from, until it has been done.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.resume_from: str | bool | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Restores the engine if the trainer resumes; says so if the checkpoint has no engine."""
        asked, self.resume_from = self.resume_from, None
        if not asked or not state.is_world_process_zero:
            return
        folder = _folder(args, state) if asked is True else Path(asked)
        path = folder / STATE_FILE
        if path.exists():
            self._engine.load_state_dict(load_state(path))
            return
        message = (
            f"{path.parent.name} holds no {STATE_FILE}: it was saved without an engine attached; "
            "the policy resumes, the population starts afresh"
        )
        self._engine.log.append(Notice(self._engine.step, message))
        warnings.warn(message, stacklevel=2)

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Writes the engine's state into the checkpoint that was just saved."""
        if state.is_world_process_zero:
            save_state(_folder(args, state) / STATE_FILE, self._engine.state_dict())


def _folder(args: TrainingArguments, state: TrainerState) -> Path:
    """Where the trainer keeps its checkpoint of this step, just saved or just resumed from."""
    return Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
