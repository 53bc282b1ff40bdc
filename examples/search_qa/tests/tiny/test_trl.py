from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import torch
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings
from pydantic import JsonValue

from evoprompt.agents.tasks import Evaluation, Trial
from evoprompt.attachment import attach
from evoprompt.engine import Engine
from evoprompt.eventlog import EventLog
from evoprompt.experiments.hosts.trl.trainee import TrlTrainingJob
from evoprompt.experiments.trial import host_for

TASK = SearchQa(SearchQaSettings(train=64, validation=20, test=20))
SMALL: dict[str, JsonValue] = {"questions_per_step": 4, "rollouts_per_question": 2, "save_every": 2}


def prepared(
    directory: Path, resume: bool = False, changes: Mapping[str, JsonValue] | None = None
) -> TrlTrainingJob:
    trial = Trial(0, directory, 32, 16, resume)
    host = host_for(TASK, {"name": "trl", **SMALL, **(changes or {})})
    return cast(TrlTrainingJob, host.prepare(TASK, trial))


def trained(
    directory: Path,
    log: EventLog,
    *,
    resume: bool = False,
    on_evaluation: Callable[[TrlTrainingJob, Engine, Evaluation], None] | None = None,
) -> tuple[TrlTrainingJob, Engine, list[tuple[int, float]]]:
    trainee = prepared(directory, resume)
    engine = Engine(TASK.seed_instructions, log=log, required=TASK.required)
    attachment = attach(trainee.trainer, engine, render=trainee.render)
    curve: list[tuple[int, float]] = []

    def record(evaluation: Evaluation) -> None:
        curve.append((engine.rollouts, evaluation.value))
        if on_evaluation is not None:
            on_evaluation(trainee, engine, evaluation)

    trainee.train(engine, record)
    attachment.detach()
    return trainee, engine, curve


def weights(trainee: TrlTrainingJob) -> torch.Tensor:
    model = trainee.trainer.model
    assert model is not None
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def test_evaluation_leaves_no_trace(tmp_path: Path) -> None:
    trainee = prepared(tmp_path)
    before, generator = weights(trainee), torch.get_rng_state()
    first = trainee.evaluate(TASK.seed_instructions[0], "test")
    assert trainee.evaluate(TASK.seed_instructions[0], "test") == first
    assert torch.equal(weights(trainee), before)
    assert torch.equal(torch.get_rng_state(), generator)
