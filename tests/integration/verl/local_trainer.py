"""veRL's own V1 trainers with everything that needs a cluster replaced: the queue and the workers.

``fit``, the step, validation, the replay buffer, checkpoints, data loading, GRPO advantages and the
loggers are veRL's code.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from contract_runs import Row
from local_rollouts import Notes, Policy
from memory_queue import MemoryQueue

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from verl.trainer.ppo.v1 import replay_buffer, trainer_base
    from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync


class Workers:
    """The group of workers that hold the policy, as far as checkpoints go."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def save_checkpoint(self, path: str, *_others: object, **_more: object) -> None:
        """Saves the policy."""
        Path(path).mkdir(parents=True, exist_ok=True)
        torch.save(self.policy.weights, Path(path) / "policy.pt")

    def load_checkpoint(self, local_path: str, **_others: object) -> None:
        """Loads it."""
        self.policy.weights = torch.load(Path(local_path) / "policy.pt")


class Local:
    """What replaces the cluster in one of veRL's trainers; mixed into it."""

    config: Any
    global_steps: int
    notes: Notes
    queue: MemoryQueue
    validating = False

    def _setup(self) -> None:
        trainer: Any = self
        trainer._init_tokenizer()
        trainer._init_dataloader()
        trainer._init_dump_executor()
        self.policy = Policy()
        self.actor_rollout_wg = Workers(self.policy)
        self.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=["a worker"])
        self.checkpoint_manager = SimpleNamespace(
            update_weights=self._update_weights,
            sleep_replicas=lambda: None,
            abort_replicas=lambda: None,
            resume_generation_replicas=lambda: None,
        )
        trainer._load_checkpoint()

    def _update_weights(self, version: int | None = None) -> None:
        self.weights_version = version

    def on_validate_begin(self) -> None:
        self.validating = True

    def on_validate_end(self) -> None:
        self.validating = False

    def _balance_batch(self, batch: Any, **_others: object) -> Any:
        return batch

    def _compute_old_log_prob(self, batch: Any, **_others: object) -> Any:
        return batch

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """One step along the gradient, and notes of what was trained on."""
        data = self.queue.kv_batch_get(batch.keys, "train")
        advantages = [float(row[0]) for row in data["advantages"].unbind(0)]
        prompts = data["shown_prompt"]
        losses = []
        for messages, advantage, ids in zip(prompts, advantages, data["responses"], strict=True):
            text = " ".join(message["content"] for message in messages)
            good = float((ids == ids.max()).float().mean())
            chance = float(self.policy.chance(text))
            losses.append(-advantage * (good * np.log(chance) + (1 - good) * np.log(1 - chance)))
            self.policy.weights[self.policy.features(text)] += 0.01 * advantage * (good - chance)
        self.notes.losses.append(float(np.mean(losses)))
        self.notes.advantages.update(zip(batch.keys, advantages, strict=True))
        metrics["actor/loss"] = self.notes.losses[-1]
        return batch

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], *_: object, **__: object
    ) -> None:
        metrics["training/global_step"] = self.global_steps
        sessions, self.notes.asked = self.notes.asked, []
        self.notes.batches.append(
            [
                Row(s.question, s.instruction, s.reward, self.notes.advantages.get(s.key, 0.0))
                for s in sessions
            ]
        )
        if self.global_steps + 1 == self.notes.job.ruin_in:
            self.policy.weights.fill_(-9.0)


class LocalSync(Local, PPOTrainerSync):  # type: ignore[misc]
    """Trains in steps."""


class LocalAsync(Local, PPOTrainerColocateAsync):  # type: ignore[misc]
    """Samples one batch ahead of training."""


@contextmanager
def queue_of_one_process() -> Iterator[MemoryQueue]:
    """Lets veRL and the adapter use a queue in memory."""
    queue = MemoryQueue()
    with (
        mock.patch.object(trainer_base, "tq", queue),
        mock.patch.object(replay_buffer, "tq", queue),
        mock.patch.dict(sys.modules, {"transfer_queue": queue}),
        mock.patch.dict(os.environ, {"HF_HUB_OFFLINE": "1"}),
    ):
        yield queue


def make_trainer(config: Any, queue: MemoryQueue, notes: Notes) -> Any:
    """An initialised trainer of the mode that ``config`` names."""
    kind: Any = LocalSync if config.trainer.v1.trainer_mode == "sync" else LocalAsync
    trainer = kind(config)
    trainer.queue, trainer.notes = queue, notes
    trainer.init()
    return trainer
