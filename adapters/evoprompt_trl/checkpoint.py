"""The engine's state inside the trainer's own ``checkpoint-N`` folders, always beside its weights.

``_save_checkpoint`` itself is wrapped, since not every save calls ``on_save`` (a checkpoint on
SIGTERM does not) and since the trainer uploads and deletes checkpoints before it does. Inside the
wrapper the upload and the deletion of older checkpoints wait until the folder is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from transformers import TrainerCallback, TrainerControl, TrainerState

from evoprompt.hosting.binding import Binding, replace
from evoprompt.log.events import Notice
from evoprompt.support.errors import StateError, warn
from evoprompt.support.storage import (
    STATE_FILE,
    checkpoints,
    load_state,
    mend,
    remove,
    require_whole,
)
from evoprompt.support.trainer_files import require_readable
from evoprompt_trl.collectives import Collectives
from evoprompt_trl.host import TrlTrainer

PREFIX = "checkpoint-"
"""How ``transformers`` names its folders, before the number of the step."""


class CheckpointCallback(TrainerCallback):
    """Checkpoint of the engine, saved and restored together with the trainer.

    Args:
        trainer: the trainer.
        binding: binding of the engine, which is saved on rank 0 only.
        collectives: joins the processes.

    Attributes:
        resume_from: argument of the trainer to resume from, until the engine has been restored.
        resumed_at: step of the checkpoint that the training was resumed from; None if it was not.
    """

    def __init__(self, trainer: TrlTrainer, binding: Binding, collectives: Collectives) -> None:
        self._trainer = trainer
        self._binding = binding
        self._engine = binding.engine
        self._collectives = collectives
        self._before_batch: tuple[int, dict[str, JsonValue]] | None = None
        self.resume_from: str | bool | None = None
        self.resumed_at: int | None = None
        self._is_finished = False
        self._until_end = ExitStack()

    def wrappers(self) -> dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]]:
        """Return the wrappers of methods of the trainer, by name."""
        return {
            "train": self._around_train,
            "_save_checkpoint": self._around_save,
            "_load_best_model": self._around_load_best,
        }

    # ----------------------------------------------------------------------------------- saving

    def before_batch(self) -> None:
        """Record the engine's state before a generation batch, if a save may come within its step.

        Such a save (``enable_jit_checkpoint``) drops the batch: it has not changed the weights yet.
        """
        if self._collectives.is_leader and getattr(
            self._trainer.args, "enable_jit_checkpoint", False
        ):
            self._before_batch = self._trainer.state.global_step, self._engine.state_dict()

    def _around_save(self, original: Callable[..., None]) -> Callable[..., None]:
        """``original``, with the engine's state in the folder, which is complete at the end."""

        def save_checkpoint(model: Any, trial: Any = None) -> None:
            folder = self._output / f"{PREFIX}{self._trainer.state.global_step}"
            # Uploads and deletions wait.
            uploads: list[str] = []
            with self._binding.save(folder, state=self._state()), ExitStack() as undo:
                replace(undo, self._trainer.args, "save_total_limit", None)
                replace(undo, self._trainer, "_push_from_checkpoint", uploads.append)
                original(model, trial)
                self._collectives.wait()
            if self._trainer.args.should_save:
                self._remove_old()
            for upload in uploads:
                self._trainer._push_from_checkpoint(upload)

        return save_checkpoint

    def _state(self) -> dict[str, JsonValue] | None:
        """Return the engine's state for the current weights; None if it is the current state."""
        if self._before_batch and self._before_batch[0] == self._trainer.state.global_step:
            return self._before_batch[1]
        return None

    def _remove_old(self) -> None:
        """Remove old checkpoints as ``save_total_limit`` requires, as the trainer would."""
        limit, best = self._trainer.args.save_total_limit, self._trainer.state.best_model_checkpoint
        *old, newest = checkpoints(self._output, PREFIX)
        protected_folders = {newest, Path(best)} if best else {newest}
        excess = 0 if not limit or limit < 0 else len(old) + 1 - max(limit, len(protected_folders))
        for folder in [folder for folder in old if folder not in protected_folders][
            : max(excess, 0)
        ]:
            remove(folder)

    # ---------------------------------------------------------------------------------- resuming

    def _around_train(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """``original``, resuming from complete checkpoints only."""

        def train(
            resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any
        ) -> Any:
            checkpoint = (
                self._resumable(resume_from_checkpoint) if self._collectives.is_leader else None
            )
            self.resume_from = self._collectives.from_leader(checkpoint)
            with ExitStack() as self._until_end:
                train_output = original(self.resume_from, *args, **kwargs)
            self._binding.report_end()
            self._share()
            return train_output

        return train

    def _resumable(self, checkpoint: str | bool | None) -> str | bool | None:
        """Return the folder to resume from; remove incomplete checkpoints if none was named.

        Raises:
            StateError: the named folder is an incomplete checkpoint, or a file is damaged.
        """
        auto = self._binding.resume == "auto" and checkpoint in (None, True)
        if checkpoint is True or auto:
            whole_folders = mend(self._output, PREFIX)
            if not whole_folders:
                return None if auto else True  # for True the trainer reports that there is none
            checkpoint = str(whole_folders[-1])
        elif checkpoint:
            require_whole(Path(checkpoint))
        if isinstance(checkpoint, str):
            require_readable(Path(checkpoint), "resume from an older checkpoint")
        return checkpoint

    def on_train_begin(
        self, args: object, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Restore the engine if the trainer resumes, and train nothing if it had finished."""
        checkpoint, self.resume_from = self.resume_from, None
        self.resumed_at = state.global_step if checkpoint else None
        self._is_finished = bool(checkpoint) and 0 < state.max_steps <= state.global_step
        if self._is_finished:
            # The loop of transformers looks at max_steps after a step only. Without batches it
            # makes none, and ends as it does after the last one.
            replace(self._until_end, self._trainer, "get_batch_samples", _no_batches)
        if not self._collectives.is_leader:
            return
        self._binding.load(Path(str(checkpoint)) if checkpoint else None)
        if self._is_finished:
            warn(  # and no event: the log of a finished training stays as it is
                f"the training had finished at step {state.global_step} of {state.max_steps}, so "
                "nothing is trained; to go on, raise max_steps or num_train_epochs; to begin anew, "
                "name another output_dir"
            )

    def on_train_end(self, *_: object, **__: object) -> None:
        """Let evaluations after the training be logged."""
        self.resumed_at = None

    def on_epoch_end(
        self, args: object, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Keep a finished training from saving or evaluating once more."""
        if self._is_finished:
            control.should_save = control.should_evaluate = control.should_log = False
            control.should_training_stop = True

    def _around_load_best(self, original: Callable[[], None]) -> Callable[[], None]:
        """``original``, after which the population is that of the weights that were loaded."""

        def load_best_model() -> None:
            original()
            if not self._collectives.is_leader:
                return
            path = Path(str(self._trainer.state.best_model_checkpoint)) / STATE_FILE
            if not path.exists():
                self._binding.notice(
                    f"the best weights, of {path.parent.name}, were saved without an engine "
                    "attached; the population stays that of the last step"
                )
                return
            last = self._engine.step
            self._engine.load_state_dict(load_state(path), rewind=False)
            self._engine.log.append(
                Notice(
                    last,
                    f"the weights of {path.parent.name} were loaded, the best; the population is "
                    f"that of step {self._engine.step} again",
                )
            )

        return load_best_model

    def _share(self) -> None:
        """Send the state of the leader's engine to the engines of other processes, at the end."""
        if self._collectives.world == 1:
            return
        leads = self._collectives.is_leader
        state = self._collectives.from_leader(self._engine.state_dict() if leads else {})
        if leads:
            return
        try:
            self._engine.load_state_dict(state, rewind=False)
        except StateError as error:  # it was built otherwise than the leader's
            warn(
                f"engine.best of process {self._collectives.rank} is not that of the training: "
                f"{error}",
                3,
            )

    @property
    def _output(self) -> Path:
        return Path(str(self._trainer.args.output_dir))


def _no_batches(*_: object, **__: object) -> tuple[list[object], None]:
    """Return what ``Trainer.get_batch_samples`` returns at the end of its data."""
    return [], None
