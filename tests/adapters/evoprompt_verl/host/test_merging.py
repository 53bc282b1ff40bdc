"""A policy that was trained by adapters is saved as one without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from evoprompt.experiments.hosts.verl.merging import merge_adapters
from evoprompt.support.errors import StateError


def policy() -> Any:
    make: Any = Qwen2ForCausalLM
    return make(
        Qwen2Config(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            tie_word_embeddings=True,
        )
    )


def test_a_folder_without_adapters_is_refused_and_stays(tmp_path: Path) -> None:
    policy().save_pretrained(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StateError, match="has no adapter"):
        merge_adapters(tmp_path, 2.0)
    assert sorted(tmp_path.iterdir()) == before


def test_the_merged_policy_answers_as_the_adapted_one(tmp_path: Path) -> None:
    torch.manual_seed(0)
    adapted: Any = get_peft_model(
        policy(), LoraConfig(r=4, lora_alpha=8, target_modules="all-linear")
    )
    for name, weight in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight)
    policy().save_pretrained(tmp_path, state_dict=adapted.state_dict())  # as veRL does
    merge_adapters(tmp_path, 8 / 4)
    ids = torch.tensor([[1, 2, 3]])
    merged = AutoModelForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        torch.testing.assert_close(merged(ids).logits, adapted(ids).logits)
        with adapted.disable_adapter():
            assert not torch.allclose(merged(ids).logits, adapted(ids).logits, atol=0.1)
