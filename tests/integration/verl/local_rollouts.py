"""Agent loops in one process: a policy that is a table of numbers answers every prompt at once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from contract_runs import Job, Row
from memory_queue import MemoryQueue

import evoprompt

LENGTH = 8
GOOD, BAD = "y", "n"


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
    """The agent loops: answers every prompt at once, by a worker in this process."""

    def __init__(self, trainer: Any, queue: MemoryQueue, notes: Notes) -> None:
        self.trainer, self.queue, self.notes = trainer, queue, notes
        self.agent_loop_workers = [LocalWorker(self)]

    def generate_sequences(self, prompts: Any) -> None:
        """Rolls ``prompts`` out, worker by worker, into the queue."""
        validate = bool(prompts["validate"]) if "validate" in prompts else False
        for chunk in prompts.chunk(self.notes.job.processes):
            for row in range(len(chunk)):
                self.roll_out(
                    {
                        name: value[row].data
                        for name, value in chunk.items()
                        if not isinstance(value, torch.Tensor)
                        and value.batch_size
                        and name != "validate"
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
        worker, uid = self.agent_loop_workers[0], prompt["uid"]
        trajectory = {"validate": validate}
        for session in range(count):
            rolled = worker._run_agent_loop({}, trajectory, **prompt, session_id=session)
            with suppress(StopIteration):
                rolled.send(None)  # nothing in it waits
        silent = prompt["id"] in self.notes.job.silent
        status = "failure" if silent else "finished"
        self.queue.kv_batch_put([uid], partition, tags=[{"status": status}])

    def answer(self, prompt: dict[str, Any], validate: bool) -> tuple[torch.Tensor, float | None]:
        """One rollout of a prompt: its letters, and its reward."""
        trainer, partition = self.trainer, "val" if validate else "train"
        messages, session = prompt["raw_prompt"], prompt["session_id"]
        instruction = next((m["content"] for m in messages if m["role"] == "system"), "")
        text = " ".join(message["content"] for message in messages)
        seed = _number(text, session, partition, trainer.weights_version)
        good = torch.rand(LENGTH, generator=torch.Generator().manual_seed(seed))
        letters = good < trainer.policy.chance(text)
        reward = None if prompt["id"] in self.notes.job.silent else float(letters.sum())
        if not validate:
            key = f"{prompt['uid']}_{session}_0"
            self.notes.asked.append(Session(key, prompt["id"], instruction, reward))
        else:
            self.note_validation(instruction)
        return letters, reward

    def note_validation(self, instruction: str) -> None:
        """Only the trainer's own validation counts, not the engine's verification."""
        if self.trainer.validating:
            best = self.notes.engine.best.text if self.notes.engine else ""
            self.notes.evaluated.append((instruction, best))

    def rendered(self, messages: Any) -> list[int]:
        """Tokens of a prompt, as veRL's agent loops render it."""
        rendered = self.trainer.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True
        )
        ids: list[int] = rendered["input_ids"]
        return ids

    def put(
        self,
        key: str,
        partition: str,
        prompt: Mapping[str, Any],
        shown: Any,
        letters: torch.Tensor,
        reward: float,
    ) -> None:
        """The trajectory of the prompt ``shown``, with veRL's own fields and tags."""
        ids = self.trainer.tokenizer("".join(GOOD if good else BAD for good in letters))
        responses = torch.tensor(ids["input_ids"])
        scores = torch.zeros(LENGTH)
        scores[-1] = reward
        fields = {
            **prompt,
            "prompts": torch.tensor(self.rendered(shown)),
            "shown_prompt": shown,
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


class LocalWorker:
    """A worker of agent loops, with the methods of veRL's own that run one rollout."""

    def __init__(self, manager: LocalManager) -> None:
        self.manager = manager

    async def _run_agent_loop(
        self, _sampling: object, trajectory: dict[str, Any], **row: Any
    ) -> None:
        letters, reward = self.manager.answer(row, trajectory["validate"])
        if reward is not None:
            output = (letters, reward, row["raw_prompt"])
            await self._agent_loop_postprocess(output, trajectory["validate"], **row)

    async def _agent_loop_postprocess(self, output: Any, validate: bool, **row: Any) -> None:
        letters, reward, shown = output
        key = f"{row['uid']}_{row['session_id']}_0"
        self.manager.put(key, "val" if validate else "train", row, shown, letters, reward)
