"""veRL's own V1 trainer in one process, without Ray: a host of the adapter contract."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import shutil
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from contract_runs import STATIC, ContractHost, Job, Run, note_tells
from cpu_support.world import make_tokenizer, write_rows
from local_rollouts import Killed, LocalManager, Notes
from local_trainer import make_trainer, queue_of_one_process

import evoprompt
from evoprompt.log.eventlog import EventLog

GROUP = 4


def composed(directory: Path, overrides: Sequence[str] = ()) -> Any:
    """veRL's configuration of a small run in ``directory``."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    settings: dict[str, object] = {
        "algorithm.adv_estimator": "grpo",
        "critic.enable": False,
        "data.train_files": directory / "train.parquet",
        "data.val_files": directory / "validation.parquet",
        "data.train_batch_size": 3,
        "data.val_batch_size": 2,
        "data.max_prompt_length": 256,
        "data.shuffle": False,
        "data.validation_shuffle": False,
        "data.dataloader_num_workers": 0,
        "data.filter_overlong_prompts": False,
        "actor_rollout_ref.model.path": directory / "model",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 1,
        "actor_rollout_ref.rollout.name": "transformers",
        "actor_rollout_ref.rollout.n": GROUP,
        "actor_rollout_ref.rollout.val_kwargs.temperature": 1.0,
        "trainer.default_local_dir": directory / "checkpoints",
        "trainer.logger": "[file]",
        "trainer.val_before_train": False,
        "trainer.total_epochs": 9,
    }
    config = deepcopy(_stock())
    given = [*(f"{name}={value}" for name, value in settings.items()), *overrides]
    for one in OverridesParser.create().parse_overrides(given):
        OmegaConf.update(config, one.key_or_group, one.value())
    return config


@cache
def _stock() -> Any:
    """veRL's configuration as it ships; hydra takes half as long for it as such a run takes."""
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer")


def write_world(directory: Path, instruction: str = "", questions: int = 60) -> None:
    """Writes tokenizer, model configuration and questions ``q0``, ``q1``, ..."""
    from transformers import Qwen2Config

    model = directory / "model"
    if not model.exists():
        make_tokenizer(model)
        Qwen2Config(architectures=["Qwen2ForCausalLM"]).save_pretrained(model)
    for name, count in (("train", questions), ("validation", 2)):
        system = [{"role": "system", "content": instruction}] if instruction else []
        write_rows(
            directory / f"{name}.parquet",
            [
                {"id": f"q{i}", "prompt": [*system, {"role": "user", "content": f"what is {i}"}]}
                for i in range(count)
            ],
        )


def run(job: Job, directory: Path, overrides: Sequence[str] = ()) -> Run | None:
    """Does a job in this process; None if it was killed."""
    write_world(directory, "" if job.engine else STATIC.seeds[0])
    config = composed(
        directory,
        [
            f"trainer.total_training_steps={job.steps}",
            f"trainer.save_freq={job.save_every or -1}",
            f"trainer.test_freq={job.evaluate_every or -1}",
            f"trainer.resume_mode={'auto' if job.resume else 'disable'}",
            *overrides,
        ],
    )
    notes = Notes(job)
    log = EventLog(directory / "events.jsonl")
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    metrics = directory / "metrics.jsonl"
    with (
        queue_of_one_process() as queue,
        mock.patch.dict(os.environ, {"VERL_FILE_LOGGER_PATH": str(metrics)}),
    ):
        trainer = make_trainer(config, queue, notes)
        notes.engine = job.engine.build(log) if job.engine else None
        told = note_tells(notes.engine) if notes.engine else []
        if notes.engine:
            evoprompt.attach(trainer, notes.engine)
        try:
            trainer.fit(LocalManager(trainer, queue, notes))
        except Killed:
            return None
        finally:
            if hasattr(trainer, "logger"):  # it has none where the start was refused
                trainer.logger.finish()
            trainer._shutdown_dump_executor()
    return Run(
        losses=notes.losses,
        weights=digest(trainer.policy.weights),
        generators=digest(
            torch.get_rng_state(),
            np.random.get_state(legacy=False)["state"]["key"],
            random.getstate(),
        ),
        batches=notes.batches,
        told=told,
        events=list(log),
        reported=_reported(metrics),
        evaluated=notes.evaluated,
        engines_used=int(bool(told)),
    )


def digest(*values: object) -> str:
    """One text for tensors, arrays and plain values."""
    plain = [value.tolist() if hasattr(value, "tolist") else value for value in values]
    return hashlib.blake2b(repr(plain).encode(), digest_size=8).hexdigest()


def _reported(path: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for line in path.read_text().splitlines():
        for name, value in json.loads(line)["data"].items():
            found.setdefault(name, []).append(math.nan if value is None else float(value))
    return found


class LocalHost(ContractHost):
    """veRL's synchronous trainer as a host of the contract."""

    group = GROUP

    def run(self, job: Job, directory: Path) -> Run | None:
        """Does the job; a second worker process is a second agent loop worker here."""
        directory.mkdir(parents=True, exist_ok=True)
        return run(job, directory)

    def trainer(self, directory: Path) -> Any:
        """A trainer that nothing is attached to."""
        write_world(directory)
        with queue_of_one_process() as queue:
            trainer = make_trainer(composed(directory), queue, Notes(Job()))
        trainer._shutdown_dump_executor()
        shutil.rmtree(directory / "checkpoints", ignore_errors=True)
        return trainer

    def fingerprint(self, trainer: object) -> object:
        """Every attribute of the trainer and of its replay buffer, by identity."""
        host: Any = trainer
        return [
            {name: id(value) for name, value in vars(owner).items()}
            for owner in (host, host.replay_buffer)
        ]
