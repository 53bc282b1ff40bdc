"""What a person with one GPU starts with takes steps on a CPU, at tiny width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bytewise import tiny_model

from evoprompt.agents.tasks import Trial
from evoprompt.engine import Engine
from evoprompt.experiments.config import load
from evoprompt.experiments.trial_parts import host_for
from evoprompt.hosting.attachment import attach
from evoprompt.plugins import build

SMALL = Path(__file__).parents[2] / "small.yaml"
HERE = (
    "host.arguments.bf16=null",
    "host.arguments.model_init_kwargs.dtype=float32",
    "host.arguments.use_cpu=true",
    "host.questions_per_step=2",
    "host.micro_batch=2",
    "host.prompt_tokens=3000",
    "task.train=20",
    "task.validation=4",
    "task.test=4",
    "budget=20",
)


@pytest.mark.parametrize("arm", ["static", "coevolve"])
def test_it_trains(arm: str, tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model")
    config = load(SMALL, (*HERE, f"host.model={model}"))
    task = build("task", config.task)
    job: Any = host_for(task, config.host_of(arm)).prepare(
        task, Trial(0, tmp_path / "trial", config.budget, 20)
    )
    engine = Engine(task.seed_instructions, required=task.required)
    attachment = attach(job.trainer, engine, render=job.render)
    job.train(engine, lambda evaluation: None)
    attachment.detach()
    assert (engine.step, job.trainer.state.global_step) == (2, 2)
