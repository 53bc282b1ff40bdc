"""A training in which no instruction reaches the policy ends at its first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from datasets import Dataset
from trl.trainer.grpo_trainer import GRPOTrainer

import evoprompt
from evoprompt.hosting.prompts import Prompt
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate

NOBODY = "no prompt of the first step held an instruction"


def engine() -> evoprompt.Engine:
    return evoprompt.Engine(["be brief unheard-of-word"])


def forgets(prompt: Prompt, candidate: Candidate) -> Prompt:
    """A render function that leaves the instruction out."""
    return prompt


def test_a_render_function_that_places_nothing_ends_training(tmp_path: Path) -> None:
    trainer = tiny_trl.trainer(tmp_path)
    evoprompt.attach(trainer, engine(), render=forgets)
    with pytest.raises(InputError, match=NOBODY):
        trainer.train()
    assert trainer.state.global_step == 0


def test_a_rollout_func_with_prompts_of_its_own_ends_training(tmp_path: Path) -> None:
    def stubborn(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        ids = trainer.processing_class("what is the capital of peru ?")["input_ids"]
        return {
            "prompt_ids": [ids] * len(prompts),
            "completion_ids": [[5, 6, 1]] * len(prompts),
            "logprobs": None,
        }

    trainer = tiny_trl.trainer(tmp_path, rollout_func=stubborn)
    evoprompt.attach(trainer, engine())
    with pytest.raises(InputError, match="a rollout_func or an environment replaces the prompts"):
        trainer.train()


class Past(GRPOTrainer):
    """A trainer whose generation does not go through the method that TRL's own goes through."""

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        batch = GRPOTrainer._generate_and_score_completions(self, generation_batch)
        return {
            name: value[:8] if hasattr(value, "shape") and value.ndim else value
            for name, value in batch.items()
        }


def test_a_trainer_that_goes_past_the_adapter_ends_after_its_first_step(tmp_path: Path) -> None:
    rewards: Any = [tiny_trl.short_words]
    trainer = Past(
        model=tiny_trl.model(),
        reward_funcs=rewards,
        args=tiny_trl.config(tmp_path),
        train_dataset=Dataset.from_list(tiny_trl.questions()),
        processing_class=tiny_trl.tokenizer(),
    )
    attached = engine()
    evoprompt.attach(trainer, attached)
    with pytest.raises(InputError, match="a subclass of Past"):
        trainer.train()
    assert attached.step == 0


def test_words_that_the_tokenizer_does_not_know_are_no_reason(tmp_path: Path) -> None:
    trainer = tiny_trl.trainer(tmp_path, max_steps=1)
    evoprompt.attach(trainer, engine())
    trainer.train()
    assert trainer.state.global_step == 1
