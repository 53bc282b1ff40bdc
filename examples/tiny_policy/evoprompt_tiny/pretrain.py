"""Supervised stage: a tiny policy from nothing, on demonstrations."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
import transformers
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from evoprompt_tiny.demonstrations import MASKED, Example

NOTE = "pretraining.json"
"""File with the note on the making of a policy."""

Stage = Literal["plain", "careful", "all"]
Draw = Callable[[random.Random, Stage], Example]
"""Draws a demonstration. ``"plain"``: of the simplest kind, so that copying is learned before
anything else; ``"careful"``: without slips; ``"all"``: under all instructions, with all habits."""

_POOL = 8  # batches drawn at a time and sorted by length, so that little is padding


@dataclass(frozen=True, slots=True)
class Pretraining:
    """Settings of the pretrained policy, besides its demonstrations.

    Attributes:
        seed: seeds the weights and the demonstrations.
        steps: optimizer steps.
        batch: demonstrations a step.
        learning_rate: peak of AdamW's schedule (linear warm-up, then cosine).
        warmup: steps of warm-up.
        plain_steps: first steps, with demonstrations of the stage ``"plain"``.
        careful_steps: steps after them, with those of the stage ``"careful"``.
        hidden: width of the residual stream.
        intermediate: width inside the gated feed-forward layers.
        layers: number of layers.
        heads: attention heads a layer.
    """

    seed: int = 0
    steps: int = 3600
    batch: int = 32
    learning_rate: float = 3e-3
    warmup: int = 60
    plain_steps: int = 300
    careful_steps: int = 900
    hidden: int = 64
    intermediate: int = 192
    layers: int = 4
    heads: int = 4


def build_policy(settings: Pretraining, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return an untrained Llama of the given shape, with weights drawn from ``settings.seed``."""
    torch.manual_seed(settings.seed)
    policy = LlamaForCausalLM(  # type: ignore[no-untyped-call]
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=settings.hidden,
            intermediate_size=settings.intermediate,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.heads,
            max_position_embeddings=tokenizer.model_max_length,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
            dtype="float32",
        )
    )
    # The usual 0.02 leaves so narrow a network without a signal; scale by its width instead.
    for name, weight in policy.named_parameters():
        if weight.dim() == 2 and "embed" not in name:
            writes_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
            scale = 0.5 if writes_residual else 1.0
            torch.nn.init.normal_(weight, std=scale * settings.hidden**-0.5)
    return policy


def pretrain(
    settings: Pretraining,
    tokenizer: PreTrainedTokenizerFast,
    draw: Draw,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[LlamaForCausalLM, list[float]]:
    """Return a pretrained policy and the loss of every step, in nats a token.

    Args:
        settings: its shape and its training.
        tokenizer: of the demonstrations.
        draw: draws them; all randomness comes from its generator.
        on_step: called after each step with its number, from 1, and its loss.
    """
    policy = build_policy(settings, tokenizer)
    optimizer = torch.optim.AdamW(
        policy.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, settings))
    losses: list[float] = []
    for ids, labels in _batches(settings, int(tokenizer.pad_token_id), draw):
        loss = _loss(policy, ids, labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        on_step(len(losses), losses[-1])
    return policy, losses


def save(
    folder: Path,
    settings: Pretraining,
    policy: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    losses: Sequence[float],
) -> None:
    """Write the folder that ``transformers`` loads, with a note on its making."""
    folder.mkdir(parents=True, exist_ok=True)
    policy.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    tail = losses[-100:]
    note = {
        "settings": asdict(settings),
        "parameters": sum(weight.numel() for weight in policy.parameters()),
        "loss": round(sum(tail) / len(tail), 4) if tail else None,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    (folder / NOTE).write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")


def _batches(
    settings: Pretraining, pad: int, draw: Draw
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    rng = random.Random(settings.seed)
    batches: list[list[Example]] = []
    for step in range(settings.steps):
        if not batches:
            pool = [draw(rng, _stage(step, settings)) for _ in range(_POOL * settings.batch)]
            pool.sort(key=lambda example: len(example.ids))
            starts = range(0, len(pool), settings.batch)
            batches = [pool[start : start + settings.batch] for start in starts]
            rng.shuffle(batches)
        examples = batches.pop()
        longest = max(len(example.ids) for example in examples)
        ids = torch.full((settings.batch, longest), pad)
        labels = torch.full((settings.batch, longest), MASKED)
        for row, example in enumerate(examples):
            ids[row, : len(example.ids)] = torch.tensor(example.ids)
            labels[row, : len(example.ids)] = torch.tensor(example.labels)
        yield ids, labels


def _stage(step: int, settings: Pretraining) -> Stage:
    if step < settings.plain_steps:
        return "plain"
    return "careful" if step < settings.plain_steps + settings.careful_steps else "all"


def _loss(policy: LlamaForCausalLM, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    hidden = policy.model(input_ids=ids, use_cache=False).last_hidden_state
    targets = labels[:, 1:]
    chosen = targets != MASKED
    logits = policy.lm_head(hidden[:, :-1][chosen])
    return functional.cross_entropy(logits, targets[chosen])


def _rate(step: int, settings: Pretraining) -> float:
    warm = min(1.0, (step + 1) / settings.warmup)
    return warm * (0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * step / settings.steps)))
