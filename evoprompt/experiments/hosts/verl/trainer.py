"""Trainer of veRL with a schedule of evaluations, checkpoints and the end, in rollouts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evoprompt_verl.checkpoint import PREFIX
from omegaconf import DictConfig
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from evoprompt.agents.tasks import Trial
from evoprompt.engine import Engine
from evoprompt.experiments.hosts.verl.arguments import FAILURES
from evoprompt.experiments.hosts.verl.failures import Failures
from evoprompt.experiments.hosts.watchdog import Watchdog
from evoprompt.log.events import Notice
from evoprompt.support.storage import checkpoints, remove

_POLL_SECONDS = 0.05


class PacedTrainer(PPOTrainerSync):  # type: ignore[misc]
    """Trainer that evaluates on schedule and stops when the budget is spent, by veRL's own hooks.

    Checkpoints are saved here rather than by veRL's ``save_freq``, after the evaluation: a resumed
    checkpoint then has its evaluation.

    Args:
        config: of veRL.
        trial: its budget and its period of evaluation.
        save_every: steps between two checkpoints.

    Attributes:
        stopping: whether to save and stop after the current step.
        failures: reasons of rollouts without a score.
    """

    def __init__(self, config: DictConfig, trial: Trial, save_every: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is no critic, which GRPO does not have
            super().__init__(config)
        self._trial = trial
        self._save_every = save_every
        self._engine: Engine | None = None
        self._evaluate: Callable[[], None] = lambda: None
        self._before = 0
        # veRL's workers count every folder that they save to, saved policies too. They would remove
        # both checkpoints before the checkpoint after a policy is written.
        section = config.trainer
        self._max_checkpoints = section.max_actor_ckpt_to_keep
        section.max_actor_ckpt_to_keep = None
        self._folder = Path(section.default_local_dir)
        self.stopping = False
        # By default the trainer looks every two seconds whether its rollouts are finished.
        self.replay_buffer.poll_interval = _POLL_SECONDS
        self.failures = Failures(trial.directory / FAILURES)
        self._sample = self.replay_buffer.sample
        self.replay_buffer.sample = self._sample_watched

    def follow(self, engine: Engine, evaluate: Callable[[], None]) -> None:
        """Count the rollouts of ``engine`` from now on, and call ``evaluate`` on schedule."""
        self.failures.pop_reasons()  # of a training before this one
        self._engine, self._evaluate = engine, evaluate

    def _sample_watched(self, *, global_steps: int, partition_id: str, batch_size: int) -> Any:
        """Return a sample of the replay buffer; a watchdog reports if no group is finished."""
        buffer = self.replay_buffer

        def count() -> int:
            return len(buffer.pending_keys[partition_id]) + len(buffer.running_keys[partition_id])

        with Watchdog(count, batch_size, self._engine).watching():
            return self._sample(
                global_steps=global_steps, partition_id=partition_id, batch_size=batch_size
            )

    def on_train_begin(self) -> None:
        """Evaluate the policy before its first step."""
        super().on_train_begin()
        if self.global_steps == 1:
            self._evaluate()

    def on_step_begin(self) -> None:
        """Record the rollouts at the start of the step."""
        super().on_step_begin()
        self._before = self._engine.rollouts if self._engine else 0

    def on_step_end(self) -> None:
        """Evaluate if a multiple of the period was passed; save; stop at the budget.

        The replicas have the new weights by then.
        """
        super().on_step_end()
        if self._engine is None:
            return
        if failed := self.failures.pop_reasons():
            prefix = f"{len(failed)} rollout(s) of step {self.global_steps} left no score; the last"
            self._engine.log.append(Notice(self._engine.step, f"{prefix} one: {failed[-1]}"))
        rollouts, every = self._engine.rollouts, self._trial.evaluate_every
        finished = rollouts >= self._trial.budget
        if finished or rollouts // every > self._before // every:
            self._evaluate()
        # A checkpoint at the end would be resumed for one step too many.
        if not finished and (self.stopping or self.global_steps % self._save_every == 0):
            self._save_checkpoint()
            for older in (
                checkpoints(self._folder, PREFIX)[: -self._max_checkpoints]
                if self._max_checkpoints
                else ()
            ):
                remove(older)
        if finished or self.stopping:
            self.total_training_steps = self.global_steps
