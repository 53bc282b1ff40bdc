"""Processors of models that see images, content parts, and environments that write the prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_trl
import torch
from contract_runs import RandomWords, note_tells
from datasets import Dataset
from PIL import Image
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessorPil,
)
from trl.trainer.grpo_trainer import GRPOTrainer

import evoprompt

PARTS = (
    "{% for message in messages %}[ {{ message['role'] }} "
    "{% for part in message['content'] %}{{ part['text'] }} {% endfor %}] {% endfor %}"
    "{% if add_generation_prompt %}[ assistant {% endif %}"
)
"""A chat template that knows contents of parts only, as those of Gemma 3 and Qwen-VL."""

TEXT: dict[str, Any] = {
    "vocab_size": len(tiny_trl.WORDS) + 8,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": tiny_trl.POSITIONS,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
}


def tokenizer(**tokens: str) -> PreTrainedTokenizerFast:
    """The tiny tokenizer with more special tokens, known by name."""
    found = tiny_trl.tokenizer()
    found.add_tokens(list(tokens.values()), special_tokens=True)
    for name, token in tokens.items():
        setattr(found, name, token)
        setattr(found, f"{name}_id", found.convert_tokens_to_ids(token))
    return found


class WithoutVideos(Qwen2_5_VLProcessor):
    """Qwen's processor, whose part for videos would need torchvision."""

    def check_argument_for_proper_class(self, name: str, argument: Any) -> Any:
        """Takes anything for the part that is not used."""
        if name == "video_processor":
            return object
        return super().check_argument_for_proper_class(name, argument)  # type: ignore[no-untyped-call]


def qwen() -> tuple[Any, Any]:
    """A Qwen 2.5 that sees images, and its processor."""
    words = tokenizer(image_token="<|image_pad|>", video_token="<|video_pad|>")
    vision = {
        "depth": 1,
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_heads": 1,
        "out_hidden_size": 16,
        "patch_size": 4,
        "spatial_merge_size": 1,
    }
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2]}
    config = Qwen2_5_VLConfig(
        text_config={**TEXT, "rope_scaling": rope, "rope_theta": 1e4},
        vision_config=vision,
        image_token_id=words.image_token_id,
        video_token_id=words.video_token_id,
        vision_start_token_id=2,
        vision_end_token_id=2,
    )
    images = Qwen2VLImageProcessorPil()
    processor = WithoutVideos(images, words, object(), chat_template=PARTS)  # type: ignore[no-untyped-call]
    return Qwen2_5_VLForConditionalGeneration(config), processor  # type: ignore[no-untyped-call]


def attach(trainer: Any) -> tuple[evoprompt.Engine, list[list[evoprompt.Trajectory]], list[Any]]:
    """Attaches an engine that evolves; returns it, what it is told and what the policy reads."""
    config = evoprompt.EngineConfig(
        population_size=3,
        evolve_every=1,
        verify_questions=2,
        accept="top",
        failure_below=2.0,
        failures_per_request=8,
    )
    engine = evoprompt.Engine(["be brief"], proposer=RandomWords(), config=config, seed=1)
    told, read = note_tells(engine), tiny_trl.prompts_read(trainer)
    evoprompt.attach(trainer, engine)
    return engine, told, read


def test_a_model_with_a_processor_is_trained_and_its_instructions_evolve(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, processor = qwen()
    rows = tiny_trl.questions()
    for row in rows:
        text = row["prompt"][0]["content"]
        row["prompt"] = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    prompts: Any = tiny_trl.Prompts()
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[prompts],
        args=tiny_trl.config(tmp_path, max_steps=2),
        train_dataset=Dataset.from_list(rows),
        processing_class=processor,
    )
    engine, told, read = attach(trainer)
    assert engine.limits.max_prompt_tokens == tiny_trl.POSITIONS - 6 - 8
    assert engine.limits.count_tokens("look it up") == 3
    assert "<eos>" in engine.limits.control_tokens
    trainer.train()
    assert len(engine.population.members) > 1
    assert read[0][0] == {"role": "system", "content": "be brief"}
    assert [message["role"] for message in prompts.seen[0]] == ["user"]
    assert told[0][0].question.text.startswith("what is the capital of")
    assert all(episode.turns for episode in told[0])


IMAGES = (
    "{% for message in messages %}[ {{ message['role'] }} "
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|image_pad|> {% else %}{{ part['text'] }} {% endif %}"
    "{% endfor %}] {% endfor %}{% if add_generation_prompt %}[ assistant {% endif %}"
)
"""A chat template with a place for images."""


@pytest.mark.parametrize("content", ["", [{"type": "image"}]], ids=["empty", "image"])
def test_a_prompt_that_is_an_image_alone_is_trained_on_and_verified(
    tmp_path: Path, content: Any
) -> None:
    torch.manual_seed(0)
    model, processor = qwen()
    processor.chat_template = IMAGES
    processor.image_processor = Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=1, min_pixels=16, max_pixels=64, temporal_patch_size=2
    )
    rows = [
        {
            "prompt": [{"role": "user", "content": content}],
            "image": Image.new("RGB", (8, 8), (20 * shade, 0, 0)),
            "lucky": "peru",
        }
        for shade in range(8)
    ]
    tokens = [processor.image_token_id, processor.tokenizer.video_token_id]
    prompts: Any = tiny_trl.Prompts()
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[prompts],
        # The policy may say no image: the model would look for its features.
        args=tiny_trl.config(tmp_path, max_steps=2, generation_kwargs={"suppress_tokens": tokens}),
        train_dataset=Dataset.from_list(rows),
        processing_class=processor,
    )
    engine, told, read = attach(trainer)
    trainer.train()
    assert engine.verification_rollouts
    assert {part["type"] for part in read[0][1]["content"]} >= {"image"}
    assert read[0][0]["content"] == [{"type": "text", "text": "be brief"}]
    assert [message["role"] for message in prompts.seen[0]] == ["user"]
    assert [len({one.question.id for one in step}) for step in told] == [2, 2]


class Riddles:
    """An environment that asks by itself, and another thing every time."""

    asked = 0

    def reset(self, **row: Any) -> str:
        """The question."""
        Riddles.asked += 1
        return f"guess {tiny_trl.WORDS[Riddles.asked % 9]}"


def test_an_environment_that_writes_the_prompts_keeps_the_instruction(tmp_path: Path) -> None:
    words = tiny_trl.tokenizer()
    words.chat_template = tiny_trl.TOOL_TEMPLATE
    prompts: Any = tiny_trl.Prompts()
    trainer = GRPOTrainer(
        model=tiny_trl.model(),
        reward_funcs=[prompts],
        args=tiny_trl.config(tmp_path, max_steps=2),
        train_dataset=Dataset.from_list([{"environment": "riddles"}] * 8),
        processing_class=words,
        environment_factory={"riddles": Riddles},
    )
    engine, told, read = attach(trainer)
    trainer.train()
    assert len(engine.population.members) > 1
    system, user = read[0]
    assert prompts.seen[:8] == [prompt[1:] for prompt in read[:8]]
    assert system["content"] == "be brief"
    assert user["content"].startswith("guess ")
    assert [trajectory.turns[0].observation for trajectory in told[0]] == [
        prompt[-1]["content"] for prompt in prompts.seen[:8]
    ]
    assert len({trajectory.question.id for trajectory in told[0]}) == 2
