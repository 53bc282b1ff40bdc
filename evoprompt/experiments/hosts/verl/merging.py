"""Merging of adapters into the weights, in a folder that veRL has written."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from evoprompt.support.errors import StateError

_PREFIX, _BASE = "base_model.model.", ".base_layer"
_LOW, _HIGH = ".lora_A.default", ".lora_B.default"


def merge_adapters(folder: Path, scale: float) -> None:
    """Replace the weights in ``folder``, which have peft's names, by weights with merged adapters.

    Args:
        folder: with ``*.safetensors``.
        scale: of the adapters.

    Raises:
        StateError: there is no adapter, so that the training would be lost.
    """
    weights: dict[str, torch.Tensor] = {}
    files = [*folder.glob("*.safetensors")]
    for file in files:
        weights |= {name.removeprefix(_PREFIX): tensor for name, tensor in load_file(file).items()}
    if not any(_LOW in name for name in weights):
        raise StateError(
            f"{folder} has no adapter (a weight with {_LOW!r} in its name), and LoRA was trained; "
            "required: weights as the tested versions of veRL and peft name them"
        )
    merged = {}
    for name, weight in weights.items():
        if _LOW in name or _HIGH in name:
            continue
        layer, _, kind = name.replace(_BASE, "").rpartition(".")
        low, high = weights.get(f"{layer}{_LOW}.{kind}"), weights.get(f"{layer}{_HIGH}.{kind}")
        if low is not None and high is not None:
            weight = (weight.float() + scale * (high.float() @ low.float())).to(weight.dtype)
        merged[f"{layer}.{kind}"] = weight
    for file in files:
        file.unlink()
    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(folder, state_dict=merged)
