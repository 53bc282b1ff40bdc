"""veRL's own V1 trainer in one process, without Ray: a host of the adapter contract.

``fit``, the step, validation, the replay buffer, checkpoints, data loading, GRPO advantages and the
loggers are veRL's code. Only what needs a cluster is replaced: the queue, the agent loops, the
workers that hold the policy, and the policy itself, a table of numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from adapter_contract import STATIC, Job, Row, Run
from cpu_support.world import make_tokenizer, write_rows
from memory_queue import MemoryQueue

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from verl.trainer.ppo.v1 import replay_buffer, trainer_base
    from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

import evoprompt
from evoprompt.checkpoint import STATE_FILE
from evoprompt.events import EventLog
from evoprompt.types import StepReport, Trajectory

LENGTH = 8
GOOD, BAD = "y", "n"
GROUP = 4


class Killed(BaseException):
    """The process died: nobody may catch this."""


class Policy:
    """Writes eight letters; how many of them are good depends on the words of its prompt."""

    def __init__(self) -> None:
        self.weights = torch.linspace(0.2, 0.8, 16)

    def chance(self, prompt: str) -> torch.Tensor:
        """Probability of a good letter under ``prompt``."""
        return self.weights[self.features(prompt)].mean().clamp(0.02, 0.98)

    def features(self, prompt: str) -> list[int]:
        """Which weights the words of ``prompt`` concern."""
        return [_number(word) % 16 for word in prompt.split()]


def _number(*values: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=6).digest())


@dataclass
class Session:
    """One rollout, as the agent loops saw it."""

    key: str
    question: str
    instruction: str
    reward: float | None


@dataclass
class Notes:
    """What is seen from the outside of the trainer."""

    job: Job
    asked: list[Session] = field(default_factory=list)
    advantages: dict[str, float] = field(default_factory=dict)
    batches: list[list[Row]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    evaluated: list[tuple[str, str]] = field(default_factory=list)
    engine: evoprompt.Engine | None = None
    submissions: int = 0


class LocalManager:
    """The agent loops: answers every prompt at once."""

    def __init__(self, trainer: Any, queue: MemoryQueue, notes: Notes) -> None:
        self.trainer, self.queue, self.notes = trainer, queue, notes

    def generate_sequences(self, prompts: Any) -> None:
        """Rolls ``prompts`` out, worker by worker, into the queue."""
        validate = bool(prompts["validate"]) if "validate" in prompts else False
        for chunk in prompts.chunk(self.notes.job.processes):
            for row in range(len(chunk)):
                self.roll_out(
                    {
                        name: value[row].data
                        for name, value in chunk.items()
                        if not isinstance(value, torch.Tensor) and value.batch_size
                    },
                    validate,
                )
        if not validate:
            self.notes.submissions += 1
            if self.notes.submissions == self.notes.job.kill_in:
                raise Killed

    def roll_out(self, prompt: dict[str, Any], validate: bool) -> None:
        """One prompt: its sessions, and how it ended."""
        trainer, partition = self.trainer, "val" if validate else "train"
        rollout = trainer.config.actor_rollout_ref.rollout
        count = prompt.pop("__rollout_n__", rollout.val_kwargs.n if validate else rollout.n)
        messages, uid = prompt["raw_prompt"], prompt["uid"]
        instruction = next((m["content"] for m in messages if m["role"] == "system"), "")
        text = " ".join(message["content"] for message in messages)
        silent = prompt["id"] in self.notes.job.silent
        for session in range(count):
            key = f"{uid}_{session}_0"
            seed = _number(text, session, partition, trainer.weights_version)
            good = torch.rand(LENGTH, generator=torch.Generator().manual_seed(seed))
            letters = good < trainer.policy.chance(text)
            reward = None if silent else float(letters.sum())
            if not validate:
                self.notes.asked.append(Session(key, prompt["id"], instruction, reward))
            else:
                self.note_validation(instruction)
            if reward is not None:
                self.put(key, partition, prompt, letters, reward)
        status = "failure" if silent else "finished"
        self.queue.kv_batch_put([uid], partition, tags=[{"status": status}])

    def note_validation(self, instruction: str) -> None:
        """Only the trainer's own validation counts, not the engine's verification."""
        if self.trainer.validating:
            best = self.notes.engine.best.text if self.notes.engine else ""
            self.notes.evaluated.append((instruction, best))

    def put(
        self,
        key: str,
        partition: str,
        prompt: Mapping[str, Any],
        letters: torch.Tensor,
        reward: float,
    ) -> None:
        """The trajectory, with the fields and tags of veRL's own agent loop worker."""
        ids = self.trainer.tokenizer("".join(GOOD if good else BAD for good in letters))
        responses = torch.tensor(ids["input_ids"])
        scores = torch.zeros(LENGTH)
        scores[-1] = reward
        fields = {
            **prompt,
            "prompts": torch.zeros(4, dtype=torch.long),
            "responses": responses,
            "response_mask": torch.ones(LENGTH, dtype=torch.long),
            "rm_scores": scores,
            "num_turns": 2,
            "extra_fields": {"reward_extra_info": {"acc": float(reward > 4)}},
        }
        version = self.trainer.weights_version
        tag = {
            "status": "success",
            "seq_len": 4 + LENGTH,
            "global_steps": self.trainer.global_steps,
            "min_global_steps": version,
            "max_global_steps": version,
        }
        self.queue.kv_batch_put([key], partition, [fields], [tag])


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
        prompts = data["raw_prompt"]
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


def composed(directory: Path, overrides: Sequence[str] = ()) -> Any:
    """veRL's configuration of a small run in ``directory``."""
    from hydra import compose, initialize_config_module

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
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(
            "ppo_trainer", [*(f"{name}={value}" for name, value in settings.items()), *overrides]
        )


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


def note_tells(engine: evoprompt.Engine) -> list[list[Trajectory]]:
    """From now on holds what ``engine`` is told, one list a call."""
    told: list[list[Trajectory]] = []
    tell = engine.tell

    def noting(trajectories: Sequence[Trajectory]) -> StepReport:
        told.append(list(trajectories))
        return tell(trajectories)

    engine.tell = noting  # type: ignore[method-assign]
    return told


def digest(*values: object) -> str:
    """One text for tensors, arrays and plain values."""
    plain = [value.tolist() if hasattr(value, "tolist") else value for value in values]
    return hashlib.blake2b(repr(plain).encode(), digest_size=8).hexdigest()


def _reported(path: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for line in path.read_text().splitlines():
        for name, value in json.loads(line)["data"].items():
            found.setdefault(name, []).append(float(value))
    return found


class LocalHost:
    """veRL's synchronous trainer as a host of the contract."""

    group = GROUP

    def run(self, job: Job, directory: Path) -> Run | None:
        """Does the job; a second worker process is a second agent loop worker here."""
        directory.mkdir(parents=True, exist_ok=True)
        return run(job, directory)

    def forget_engine(self, directory: Path) -> None:
        """Removes the engine's state from every checkpoint."""
        for file in directory.rglob(STATE_FILE):
            file.unlink()

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
