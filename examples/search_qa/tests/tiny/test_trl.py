"""The policy's own sampler, which evaluates it under TRL."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import torch
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings
from pydantic import JsonValue

from evoprompt.agents.tasks import Trial
from evoprompt.experiments.hosts.trl.trainee import TrlTrainingJob
from evoprompt.experiments.trial import host_for


def test_evaluation_leaves_no_trace(tmp_path: Path) -> None:
    task = SearchQa(SearchQaSettings(train=64, validation=20, test=20))
    section: dict[str, JsonValue] = {
        "name": "trl",
        "questions_per_step": 4,
        "rollouts_per_question": 2,
    }
    job = cast(TrlTrainingJob, host_for(task, section).prepare(task, Trial(0, tmp_path, 32, 16)))
    model = job.trainer.model
    assert model is not None
    before = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    generator = torch.get_rng_state()
    first = job.evaluate(task.seed_instructions[0], "test")
    assert job.evaluate(task.seed_instructions[0], "test") == first
    after = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    assert torch.equal(after, before)
    assert torch.equal(torch.get_rng_state(), generator)
