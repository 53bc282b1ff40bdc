from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import torch
from evoprompt_tiny.demonstrations import MASKED, Example
from evoprompt_tiny.pretrain import NOTE, Pretraining, Stage, pretrain, save
from evoprompt_tiny.vocabulary import build_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

TOKENIZER = build_tokenizer(["a door"])
SMALL = Pretraining(
    steps=12, batch=4, warmup=2, plain_steps=3, careful_steps=4, hidden=16, intermediate=32,
    layers=2, heads=2,
)  # fmt: skip


def draw(rng: random.Random, stage: Stage) -> Example:
    """A digit, to be said again."""
    digit, end = TOKENIZER.encode(str(rng.randint(0, 9))), TOKENIZER.eos_token_id
    return Example([*digit, end, *digit, end], [MASKED, MASKED, *digit, end])


def test_it_repeats_from_its_seed_and_learns() -> None:
    first, second = (pretrain(SMALL, TOKENIZER, draw)[1] for _ in range(2))
    assert first == second
    assert first[-1] < first[0]


def test_demonstrations_come_in_stages() -> None:
    asked: list[str] = []

    def noted(rng: random.Random, stage: Stage) -> Example:
        asked.append(stage)
        return draw(rng, stage)

    pretrain(replace(SMALL, steps=24, plain_steps=8, careful_steps=8), TOKENIZER, noted)
    assert asked == ["plain"] * 32 + ["careful"] * 32 + ["all"] * 32


def test_a_saved_policy_is_loaded_as_any_other(tmp_path: Path) -> None:
    policy, losses = pretrain(SMALL, TOKENIZER, draw)
    save(tmp_path, SMALL, policy, TOKENIZER, losses)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = torch.tensor([tokenizer.encode("a door 7")])
    assert torch.equal(loaded(ids).logits, policy(ids).logits)
    note = json.loads((tmp_path / NOTE).read_text(encoding="utf-8"))
    assert note["settings"]["hidden"] == 16
    assert note["parameters"] == sum(weight.numel() for weight in policy.parameters())
