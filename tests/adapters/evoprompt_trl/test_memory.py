from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from adding_task import Adding, save_model
from pydantic import JsonValue
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from evoprompt.agents.tasks import Plan, Trial
from evoprompt.experiments.requirements import model_size
from evoprompt.experiments.trial import host_for

DIMENSIONS: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 48,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}


def kept_by_autograd(model: Any, tokens: int) -> int:
    """Numbers beside the weights that a forward pass of two rows keeps, each storage once."""
    known = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    found: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == torch.float32 and tensor.untyped_storage().data_ptr() not in known:
            found.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    ids = torch.randint(0, 64, (2, tokens), generator=torch.Generator().manual_seed(0))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits
        bytes_ = sum(one.untyped_storage().nbytes() for one in found.values())
        del logits
    return bytes_ // 4


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_pass_keeps_what_the_shape_says(family: str, tmp_path: Path) -> None:
    model: Any = (
        LlamaForCausalLM(LlamaConfig(**DIMENSIONS))  # type: ignore[no-untyped-call]
        if family == "llama"
        else Qwen2ForCausalLM(Qwen2Config(**DIMENSIONS))  # type: ignore[no-untyped-call]
    )
    model.save_pretrained(tmp_path)
    size = model_size(str(tmp_path))
    assert size is not None
    measured = kept_by_autograd(model.train(), tokens=128) / (2 * 128)
    assert measured == pytest.approx(size.kept, rel=0.1)


def planned(model: str, **host: JsonValue) -> Plan:
    chosen = {"name": "trl", "model": model, **host}
    return host_for(Adding(), chosen).plan(Adding(), Trial(0, Path("none"), 24, 8))


def test_a_plan_for_a_cpu_says_it_and_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = save_model(tmp_path)
    plan = planned(model)
    said = dict(plan.figures)["memory of a step"]
    assert said.startswith("at most about 0.7 GiB of main memory, with rows of")
    assert not plan.notices
    monkeypatch.setattr("evoprompt.experiments.hosts.trl.plan.main_memory", lambda: 0.25)
    plan = planned(model)
    (notice,) = plan.notices
    assert notice.startswith("a step may take 0.7 GiB of main memory, and this machine has 0.2;")
    assert "host.micro_batch" in notice
    assert not [need for need in plan.needs if need.missing]
    on_gpus = planned(model, processes=2, arguments={"use_cpu": None})
    assert "GPU" in [need.subject for need in on_gpus.needs]
    assert "memory of a step" not in dict(on_gpus.figures)
