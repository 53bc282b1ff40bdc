"""The shards that a real veRL saved on two nodes become one model that transformers loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from cpu_support.launch import Training
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from evoprompt.agents.recipe import Recipe
from evoprompt.experiments.export import export
from evoprompt.support.errors import InputError

pytestmark = [pytest.mark.verl, pytest.mark.nightly, pytest.mark.timeout(3600)]


def parts(actor: Path) -> list[dict[str, Any]]:
    """What each rank saved, by name."""
    files = sorted(actor.glob("model_world_size_2_rank_*.pt"))
    loaded = [torch.load(file, weights_only=False, map_location="cpu") for file in files]
    return [{name: _local(value) for name, value in one.items()} for one in loaded]


def _local(value: torch.Tensor) -> torch.Tensor:
    return value.to_local() if isinstance(value, DTensor) else value


def test_two_shards_are_exported_as_one_model(clustered: Training, tmp_path: Path) -> None:
    saved = clustered.directory / "checkpoints" / "global_step_3"
    with pytest.raises(
        InputError, match=r"put together by: python -m (verl\.model_merger .*)"
    ) as lacking:
        export(saved, tmp_path / "out")
    command = str(lacking.value).rpartition("python ")[2].split()
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    export(saved, tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    first, second = parts(saved / "actor")
    for name, weight in model.state_dict().items():
        whole = torch.cat([first[name], second[name]])
        assert torch.equal(weight, whole[: len(weight)].to(weight.dtype)), name
    recipe = Recipe.read(tmp_path / "out")
    assert recipe.step == 3
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path / "out")
    asked = [{"role": "user", "content": "which colour is the cup"}]
    prompt = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    assert recipe.best.text in prompt
