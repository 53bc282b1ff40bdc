"""A training by veRL's own trainer, without Ray, that may be killed anywhere and started again."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from contract_runs import EVOLVING, Job
from faults import WORK
from local_rollouts import LocalManager, Notes, Policy
from local_trainer import LocalSync, Workers, queue_of_one_process
from local_verl import composed, digest, write_world
from verl.utils.checkpoint.checkpoint_manager import BaseCheckpointManager

import evoprompt
from evoprompt.log.eventlog import EventLog
from evoprompt.support.storage import STATE_FILE

STEPS = 5


class _Retention(BaseCheckpointManager):  # type: ignore[misc]
    """veRL's own rules of which checkpoints to remove, and when."""

    def __init__(self) -> None:
        self.previous_saved_paths: list[str] = []


class FileWorkers(Workers):
    """Workers that write the files of veRL's FSDP workers, in their order."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._retention = _Retention()

    def save_checkpoint(self, path: str, *_others: object, **more: object) -> None:
        """Weights, optimizer and generators, then the model's configuration."""
        keep: Any = more["max_ckpt_to_keep"]
        self._retention.ensure_checkpoint_capacity(keep)
        folder, rank = Path(path), "world_size_1_rank_0.pt"
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(self.policy.weights, folder / f"model_{rank}")
        torch.save({"lr": 0.01}, folder / f"optim_{rank}")
        torch.save(BaseCheckpointManager.get_rng_state(), folder / f"extra_state_{rank}")
        (folder / "huggingface").mkdir(exist_ok=True)
        (folder / "huggingface" / "config.json").write_text("{}")
        (folder / "fsdp_config.json").write_text('{"FSDP_version": 2, "world_size": 1}')
        self._retention.register_checkpoint(path, keep)

    def load_checkpoint(self, local_path: str, **_others: object) -> None:
        """All of them must be there."""
        folder, rank = Path(local_path), "world_size_1_rank_0.pt"
        self.policy.weights = torch.load(folder / f"model_{rank}")
        torch.load(folder / f"optim_{rank}")
        state = torch.load(folder / f"extra_state_{rank}", weights_only=False)
        BaseCheckpointManager.load_rng_state(state)


class _Trainer(LocalSync):
    """Keeps its workers' files as veRL's own workers do."""

    def _load_checkpoint(self) -> None:
        self.actor_rollout_wg = FileWorkers(self.policy)
        super()._load_checkpoint()


def main(directory: Path) -> None:
    """Trains, from the newest checkpoint if there is one, and leaves ``result.json``."""
    settings = {"steps": STEPS, "keep": 1, **json.loads((directory / "settings.json").read_text())}
    work, notes = directory / WORK, Notes(Job())
    events = work / "events.jsonl"
    resumes = any(work.glob(f"checkpoints/*/{STATE_FILE}"))
    if not resumes:
        events.unlink(missing_ok=True)
    world = directory / "world"  # which nothing happens to
    world.mkdir(exist_ok=True)
    write_world(world)
    config = composed(
        world,
        [
            f"trainer.default_local_dir={work / 'checkpoints'}",
            f"trainer.total_training_steps={settings['steps']}",
            f"trainer.max_actor_ckpt_to_keep={settings['keep']}",
            "trainer.save_freq=2",
            f"trainer.resume_mode={'auto' if resumes else 'disable'}",
        ],
    )
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    log = EventLog(events)
    metrics = {"VERL_FILE_LOGGER_PATH": str(directory / "metrics.jsonl")}
    with queue_of_one_process() as queue, mock.patch.dict(os.environ, metrics):
        trainer = _Trainer(config)
        trainer.queue, trainer.notes = queue, notes
        notes.engine = engine = EVOLVING.build(log)
        evoprompt.attach(trainer, engine)
        trainer.init()
        trainer.fit(LocalManager(trainer, queue, notes))
        trainer.logger.finish()
        trainer._shutdown_dump_executor()
    result = {
        "weights": digest(trainer.policy.weights),
        "rollouts": engine.rollouts,
        "best": engine.best.text,
        "population": [candidate.text for candidate in engine.population.members],
        "events": list(log),
    }
    (directory / "result.json").write_text(json.dumps(result))
