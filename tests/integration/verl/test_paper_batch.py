"""At 512 questions of 5 rollouts every episode a proposer is shown has text, at a small cost."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paper_batch
import torch
from cpu_support.world import make_tokenizer
from evoprompt_verl.attachment import VerlAttachment
from evoprompt_verl.columns import PROMPT, ROLLOUTS, UID, batch_of, column, setting
from memory_queue import MemoryQueue
from omegaconf import OmegaConf

from evoprompt.prompts import system_message

CONFIG = {
    "algorithm": {"adv_estimator": "grpo"},
    "data": {"max_prompt_length": 512},
    "actor_rollout_ref": {"rollout": {"n": paper_batch.ROLLOUTS}},
    "trainer": {
        "default_local_dir": "unused",
        "test_freq": -1,
        "val_before_train": False,
    },
}


GIVEN = {
    "responses": torch.tensor([5, 6, 7]),
    "response_mask": torch.tensor([1, 0, 1]),
    "extra_fields": {},
}


class Sampled:
    """Stands for veRL's agent loops and its replay buffer: what was asked comes back at once."""

    def __init__(self, queue: MemoryQueue, tokenizer: Any) -> None:
        self.queue, self.tokenizer = queue, tokenizer
        self.rng = random.Random(2)
        self.keys: list[str] = []
        self.prompts: dict[str, torch.Tensor] = {}
        self.fetched = 0
        get = queue.kv_batch_get

        def counting(keys: list[str], partition_id: str, select_fields: Any = None) -> Any:
            self.fetched += len(keys) if "responses" in select_fields else 0
            return get(keys, partition_id, select_fields)

        queue.kv_batch_get = counting  # type: ignore[method-assign]

    def generate_sequences(self, prompts: Any) -> None:
        """Puts the group of every prompt into the queue, a third of its tokens observations."""
        partition = "val" if setting(prompts, "validate", False) else "train"
        messages = column(prompts, PROMPT)
        verified = column(prompts, ROLLOUTS) if ROLLOUTS in prompts else None
        fields = []
        self.keys = []
        for row, uid in enumerate(column(prompts, UID)):
            for rollout in range(verified[row] if verified else paper_batch.ROLLOUTS):
                scores = torch.zeros(3)
                scores[-1] = paper_batch.reward(messages[row][0]["content"], self.rng)
                self.keys.append(f"{uid}_{rollout}_0")
                fields.append({"rm_scores": scores, "prompts": self.prompt(messages[row]), **GIVEN})
        self.queue.kv_batch_put(self.keys, partition, fields)

    def prompt(self, messages: Any) -> torch.Tensor:
        """What the policy saw; rendered once per instruction, which is all that is looked for."""
        text = messages[0]["content"]
        if text not in self.prompts:
            rendered = self.tokenizer.apply_chat_template(messages, return_dict=True)
            self.prompts[text] = torch.tensor(rendered["input_ids"])
        return self.prompts[text]

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> Any:
        """Everything that was asked for."""
        return SimpleNamespace(keys=self.keys, tags=[], partition_id=partition_id), {}


def test_every_episode_shown_has_text(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    make_tokenizer(tmp_path)
    queue = MemoryQueue()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    sampled = Sampled(queue, tokenizer)
    trainer: Any = SimpleNamespace(
        config=OmegaConf.create(CONFIG),
        tokenizer=tokenizer,
        global_steps=0,
        parameter_sync_step=1,
        local_trigger_step=0,
        total_training_steps=paper_batch.STEPS,
        logger=SimpleNamespace(logger={}),
        replay_buffer=sampled,
        checkpoint_manager=SimpleNamespace(sleep_replicas=None, update_weights=None),
        reward_loop_manager=SimpleNamespace(reward_loop_worker_handles=["a worker"]),
        train_dataset=None,
        val_dataset=None,
        fit=None,
        _load_checkpoint=None,
        _save_checkpoint=None,
        _validate=None,
    )
    engine, notes = paper_batch.engine(preset="inspo")
    attachment = VerlAttachment(trainer, engine, system_message, queue)
    attachment.start(sampled)
    for step in range(paper_batch.STEPS):
        trainer.global_steps = step + 1
        rows = [
            {"id": row["id"], PROMPT: row["prompt"], UID: row["id"], "index": n}
            for n, row in enumerate(paper_batch.questions(step))
        ]
        sampled.generate_sequences(batch_of(rows, global_steps=step + 1))
        trainer.replay_buffer.sample(step + 1, "train", paper_batch.QUESTIONS)
        queue.kv_clear(sampled.keys, "train")
        paper_batch.look(engine, notes)
    most = engine.config.failures_per_request
    assert len(notes.shown) > paper_batch.STEPS
    assert all(len(shown) == most for shown in notes.shown)
    assert all(episode.turns for shown in notes.shown for episode in shown)
    assert 0 < sampled.fetched <= 2 * most * engine.config.population_size * paper_batch.STEPS
