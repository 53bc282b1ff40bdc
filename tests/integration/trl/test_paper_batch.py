"""At 512 questions of 5 rollouts every episode a proposer is shown has text."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import paper_batch
import pytest
import tiny_trl
import torch
from evoprompt_trl.host import Batch, Row

import evoprompt


class Sampled:
    """Stands for TRL's sampling, which would take hours here; TRL itself scores."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.rng = random.Random(2)
        self.decoded = 0
        decode = trainer.processing_class.batch_decode

        def counting(sequences: list[list[int]], **settings: Any) -> list[str]:
            self.decoded += 1
            texts: list[str] = decode(sequences, **settings)
            return texts

        trainer.processing_class.batch_decode = counting

    def __call__(self, rows: list[Row]) -> Batch:
        """Four tokens a row: two of the policy, an observation, one of the policy."""
        ids = [[self.rng.randrange(5, 20) for _ in range(4)] for _ in rows]
        prompts = [row["prompt"] for row in rows]
        self.trainer._calculate_rewards(rows, prompts, [[] for _ in rows], ids)
        mask = torch.tensor([[1, 1, 0, 1]] * len(rows))
        tokenizer = self.trainer.processing_class
        asked = tokenizer.apply_chat_template(prompts[:1], tokenize=True, return_dict=True)
        first = torch.tensor(asked["input_ids"] * len(rows))
        return {
            "tool_mask": mask,
            "completion_mask": torch.ones_like(mask),
            "prompt_ids": first,
            "prompt_mask": torch.ones_like(first),
        }


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"preset": "inspo"}, marks=pytest.mark.nightly),
        pytest.param({"failures_per_request": 64, "parents": 2}, marks=pytest.mark.nightly),
    ],
)
def test_every_episode_shown_has_text(tmp_path: Path, settings: dict[str, Any]) -> None:
    rng = random.Random(1)

    def scored(prompts: list[Any], **columns: Any) -> list[float]:
        return [paper_batch.reward(prompt[0]["content"], rng) for prompt in prompts]

    rows_a_step = paper_batch.QUESTIONS * paper_batch.ROLLOUTS
    trainer = tiny_trl.trainer(
        tmp_path,
        rewards=[scored],
        num_generations=paper_batch.ROLLOUTS,
        per_device_train_batch_size=rows_a_step,
    )
    trainer._generate_and_score_completions = sampled = Sampled(trainer)
    engine, notes = paper_batch.engine(**settings)
    evoprompt.attach(trainer, engine)
    trainer.model.train()
    for step in range(paper_batch.STEPS):
        rows = [row for row in paper_batch.questions(step) for _ in range(paper_batch.ROLLOUTS)]
        trainer._generate_and_score_completions(rows)
        paper_batch.look(engine, notes)
    most = engine.config.failures_per_request
    assert len(notes.shown) > paper_batch.STEPS
    assert all(len(shown) == most for shown in notes.shown)
    assert all(episode.turns for shown in notes.shown for episode in shown)
    # With each failure that may be shown one success.
    assert sampled.decoded <= 2 * most * engine.config.population_size * paper_batch.STEPS
