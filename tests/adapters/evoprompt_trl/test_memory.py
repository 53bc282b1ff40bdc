from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from adding_task import Adding, save_model
from pydantic import JsonValue
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from evoprompt.agents import Limits
from evoprompt.agents.tasks import EpisodeRunner, Plan, Trial
from evoprompt.experiments.hosts.trl.memory import Shape, longest_prompt, shape_of, step_gib
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.experiments.hosts.trl.tokenizer import tokenizer_of
from evoprompt.experiments.requirements import GIB, ModelSize
from evoprompt.experiments.trial import host_for
from evoprompt.types import Question

LIMITS = Limits(calls=0, turn_tokens=24, observation_tokens=24)
SIZE = ModelSize(parameters=2**28, vocabulary=2**10, exact=True)
SHAPE = Shape(layers=4, hidden=64, queries=64, keys=32, inner=128)
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
    shape = shape_of(str(tmp_path))
    assert shape == Shape(layers=3, hidden=48, queries=48, keys=16, inner=160)
    measured = kept_by_autograd(model.train(), tokens=128) / (2 * 128)
    assert measured == pytest.approx(3 * shape.kept, rel=0.1)


def test_a_model_that_is_not_here_has_no_shape(tmp_path: Path) -> None:
    assert shape_of(str(tmp_path)) is None


def settings(**host: JsonValue) -> TrlSettings:
    return TrlSettings.model_validate(
        {"questions_per_step": 2, "rollouts_per_question": 4, "micro_batch": 2, **host}
    )


def memory(bf16: bool = False, **host: JsonValue) -> float:
    return step_gib(settings(**host), LIMITS, SIZE, SHAPE, prompt=200, bf16=bf16) * GIB


def test_a_step_is_weights_states_and_logits() -> None:
    weights, process = 4 * 2**28, 0.65 * GIB
    rest = 2 * 224 * 4 * SHAPE.kept * 4 + 2 * 25 * 2**10 * 16
    assert memory(arguments={"beta": 0}) == pytest.approx(5 * weights + process + rest)
    assert memory() == pytest.approx(6 * weights + process + rest)  # the reference
    larger = memory(micro_batch=8) - 6 * weights - process
    assert larger == pytest.approx(4 * rest)
    assert memory(arguments={"gradient_checkpointing": True}) < memory()
    assert memory(bf16=True) < memory() + 2 * 2**28  # but a copy of the weights is kept
    assert memory(processes=2, micro_batch=1) > 1.9 * (6 * weights + process)
    # Keys and values of many rows, in the place of gradients.
    cached = 2**15 * 224 * 4 * 2 * SHAPE.keys * 4 - 2 * weights
    assert memory(at_once=2**15) == pytest.approx(6 * weights + process + cached)


class Told(Adding):
    """Asks one long question among short ones."""

    seed_instructions = (  # type: ignore[assignment]
        "Add.",
        "Add with the tool, and be careful about it.",
    )

    def questions(self, split: str) -> Sequence[Question]:
        found = list(super().questions(split)) * 20
        found[57] = Question("long", f"{'x' * 300} 1 plus 1?", ("2",))
        return found


def test_the_longest_prompt_is_found_among_many(tmp_path: Path) -> None:
    task = Told()
    player = EpisodeRunner(task, tokenizer_of(save_model(tmp_path)), LIMITS)
    short = longest_prompt(Adding(), player, 4096)
    found = longest_prompt(task, player, 4096)
    # A token is a character; the longer instruction counts.
    longer = len(Told.seed_instructions[1]) - len(Adding.seed_instructions[0])
    assert found - short == longer + len(f"{'x' * 300} 1 plus 1?") - len("1 plus 1?")
    assert longest_prompt(task, player, 100) == 100


def planned(model: str, **host: JsonValue) -> Plan:
    chosen = {"name": "trl", "model": model, **host}
    found = host_for(Adding(), chosen).plan(Adding(), Trial(0, Path("none"), 24, 8))
    assert found is not None
    return found


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
