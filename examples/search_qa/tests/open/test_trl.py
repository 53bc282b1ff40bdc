from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from evoprompt_search_qa.open.tool import SearchTool
from pydantic import JsonValue

from evoprompt.agents import Broken, Call, Episode, Result
from evoprompt.agents.tasks import Evaluation, Trial
from evoprompt.attachment import attach
from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.eventlog import EventLog
from evoprompt.experiments.hosts.trl.trainee import TrlTrainingJob
from evoprompt.experiments.trial import host_for

END = "<|im_end|>"
SMALL: dict[str, JsonValue] = {
    "questions_per_step": 2,
    "rollouts_per_question": 4,
    "updates_per_step": 2,
    "micro_batch": 2,
    "save_every": 2,
    "learning_rate": 1e-3,
}


def prepared(
    task: OpenQa,
    directory: Path,
    resume: bool = False,
    changes: Mapping[str, JsonValue] | None = None,
) -> TrlTrainingJob:
    trial = Trial(0, directory, 32, 16, resume)
    return hosted(task, trial, changes)


def hosted(
    task: OpenQa, trial: Trial, changes: Mapping[str, JsonValue] | None = None
) -> TrlTrainingJob:
    host = host_for(task, {"name": "trl", **SMALL, **(changes or {})})
    return cast(TrlTrainingJob, host.prepare(task, trial))


@pytest.fixture
def task(settings: dict[str, JsonValue]) -> OpenQa:
    return OpenQa(OpenQaSettings.model_validate(settings))


def trained(
    task: OpenQa,
    directory: Path,
    log: EventLog,
    *,
    resume: bool = False,
    on_evaluation: Callable[[TrlTrainingJob, Engine], None] | None = None,
) -> tuple[TrlTrainingJob, Engine, list[tuple[int, float]]]:
    trainee = prepared(task, directory, resume)
    engine = Engine(task.seed_instructions, log=log, required=task.required)
    attachment = attach(trainee.trainer, engine, render=trainee.render)
    curve: list[tuple[int, float]] = []

    def record(evaluation: Evaluation) -> None:
        curve.append((engine.rollouts, evaluation.value))
        if on_evaluation is not None:
            on_evaluation(trainee, engine)

    trainee.train(engine, record)
    attachment.detach()
    return trainee, engine, curve


def weights(trainee: TrlTrainingJob) -> torch.Tensor:
    model = trainee.trainer.model
    assert model is not None
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def test_a_stopped_training_resumes_as_if_it_had_not_been(task: OpenQa, tmp_path: Path) -> None:
    whole, engine, curve = trained(task, tmp_path / "whole", EventLog())

    def stop_halfway(trainee: TrlTrainingJob, engine: Engine) -> None:
        if engine.rollouts == 16:
            trainee.stop()

    log = EventLog(tmp_path / "events.jsonl")
    _, halfway, first = trained(task, tmp_path / "parts", log, on_evaluation=stop_halfway)
    assert halfway.rollouts == 16
    log = EventLog(tmp_path / "events.jsonl")
    resumed, continued, second = trained(task, tmp_path / "parts", log, resume=True)
    assert first + second == curve
    assert list(continued.log) == list(engine.log)
    assert torch.equal(weights(resumed), weights(whole))


def test_only_what_the_policy_wrote_is_trained_on(
    task: OpenQa, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainee = prepared(task, tmp_path)
    trainer: Any = trainee.trainer
    generate = trainer._generate_and_score_completions
    seen: list[tuple[Any, Sequence[Episode]]] = []

    def spying(inputs: list[dict[str, Any]]) -> Any:
        batch = generate(inputs)
        seen.append((batch, [row["episode"] for row in inputs]))
        return batch

    monkeypatch.setattr(trainer, "_generate_and_score_completions", spying)
    engine = Engine(task.seed_instructions, required=task.required)
    attachment = attach(trainer, engine, render=trainee.render)
    trainee.train(engine, lambda evaluation: None)
    attachment.detach()
    assert len(seen) == 4
    for batch, episodes in seen:
        columns = (batch[name] for name in ("completion_ids", "tool_mask", "completion_mask"))
        for ids, own, real, episode in zip(*columns, episodes, strict=True):
            pairs = zip(own[real.bool()].tolist(), ids[real.bool()].tolist(), strict=True)
            pieces = [
                (mine, trainer.processing_class.decode([token for _, token in piece]))
                for mine, piece in groupby(pairs, key=lambda pair: pair[0])
            ]
            told = [
                (mine, text)
                for turn in episode.turns
                for mine, text in ((1, turn.action), (0, turn.observation))
                if text
            ]
            assert [(mine, text.removesuffix(END)) for mine, text in pieces] == told


def test_a_rollout_whose_search_broke_has_no_reward(
    task: OpenQa, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = SearchTool.__call__
    asked: list[Call] = []

    def breaking(tool: SearchTool, calls: Sequence[Call]) -> list[Result]:
        asked.extend(calls)
        return [Broken("the server fell over"), *answer(tool, calls[1:])]

    trainee = prepared(task, tmp_path)
    log = EventLog()
    engine = Engine(task.seed_instructions, required=task.required, log=log)
    attachment = attach(trainee.trainer, engine, render=trainee.render)
    monkeypatch.setattr(SearchTool, "__call__", breaking)
    trainee.train(engine, lambda evaluation: None)
    attachment.detach()
    told = [event for event in log if event["event"] == "told"]
    assert [event["unscored"] for event in told] == [1] * 4
    assert all(event["reward"] is not None for event in told)
    assert len(asked) > 32


@pytest.mark.parametrize(
    ("settings_changed", "said"),
    [
        ({"learning_rte": 1e-4}, "did you mean 'learning_rate'"),
        ({"micro_batch": 3}, "required: a multiple of"),
        ({"processes": 2}, "accelerate launch --num_processes 2"),
        ({"arguments": {"fsdp": True}}, "fsdp without use_vllm"),
        ({"arguments": {"no_such_argument": 1}}, "no_such_argument"),
    ],
)
def test_wrong_host_settings_are_named(
    task: OpenQa, tmp_path: Path, settings_changed: dict[str, JsonValue], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        prepared(task, tmp_path, changes=settings_changed)
