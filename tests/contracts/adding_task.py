"""A task played by tool calls, its policy scripted by one sampler: no model has to be taught."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from bytewise import HERMES, bytewise
from pydantic import JsonValue
from transformers import Qwen2Config, Qwen2ForCausalLM

from evoprompt.agents import Action, Broken, Episode, Limits, Sampling
from evoprompt.agents.tasks import MainMetric, Score, Task
from evoprompt.types import Question


def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


HOST: dict[str, JsonValue] = {
    "questions_per_step": 2,
    "rollouts_per_question": 4,
    "learning_rate": 1e-3,
    "save_every": 1,
    "threads": 1,
    "arguments": {"use_cpu": True, "bf16": False, "gradient_checkpointing": False},
}


class Adding(Task):
    """Sums with a tool; odd questions are answered wrongly, whatever the policy has learned."""

    main_metric = MainMetric("accuracy", "share right")
    seed_instructions = ("Add with the tool, then answer.",)
    tools = (add,)
    limits = Limits(calls=2, turn_tokens=96, observation_tokens=128)
    host_defaults = MappingProxyType({"trl": HOST})

    def questions(self, split: str) -> Sequence[Question]:
        """Six sums."""
        return [Question(f"{split}{n}", f"{n} plus {n}?", (str(2 * n),)) for n in range(6)]

    def score(self, episode: Episode, question: Question) -> Score:
        """Whether the sum is right, by parity."""
        right = float(episode.answer in question.answers)
        said = "" if right else f"expected {question.answers[0]}, got {episode.answer}"
        kind = "even" if int(question.answers[0]) % 4 == 0 else "odd"
        return Score(right, said, {"accuracy": right, "said": float(len(said))}, kind)

    def sampler(self, model: Any, tokenizer: Any, temperature: float) -> Scripted:
        """One that knows what to say."""
        return Scripted(tokenizer)


class Scripted:
    """Calls the tool once and answers what it was shown; a little noise makes rewards differ."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        """One action per episode."""
        return [self._say(episode, greedy) for episode in episodes]

    def _say(self, episode: Episode, greedy: bool) -> Action:
        asked = self._tokenizer.decode(episode.prompt_ids).rsplit(" plus ", 1)[0]
        number = int(asked.rsplit("\n", 1)[-1])
        if not episode.turns:
            call = {"name": "add", "arguments": {"a": number, "b": number}}
            text = f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
        else:
            shown = episode.turns[-1].observation.split("<tool_response>\n")[1].split("\n")[0]
            wrong = number % 2 == 1 and (greedy or bool(torch.rand(()) < 0.5))
            text = "no idea" if wrong else shown
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return Action([*ids, self._tokenizer.eos_token_id])


def save_model(folder: Path, template: str | None = HERMES) -> str:
    """Writes a model of random weights with a tokenizer of characters; returns the folder."""
    torch.manual_seed(0)
    tokenizer = bytewise(template)
    config = Qwen2Config(
        vocab_size=len(tokenizer) + 8,  # Qwen2's tokenizer adds one of its own
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)  # type: ignore[no-untyped-call]
    tokenizer.save_pretrained(folder)
    return str(folder)
