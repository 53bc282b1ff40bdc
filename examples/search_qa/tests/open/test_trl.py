from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pytest
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from pydantic import JsonValue

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Trial
from evoprompt.attachment import attach
from evoprompt.engine import Engine
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
