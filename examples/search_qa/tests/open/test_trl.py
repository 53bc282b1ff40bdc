from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from pydantic import JsonValue
from transformers import AutoModelForCausalLM

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Trial
from evoprompt.engine import Engine
from evoprompt.experiments.config import load
from evoprompt.experiments.hosts.trl.job import TrlTrainingJob
from evoprompt.experiments.trial_parts import host_for
from evoprompt.hosting.attachment import attach
from evoprompt.plugins import build

END = "<|im_end|>"
EXAMPLES = Path(__file__).parents[3]
FILES = ("train", "validation", "test")
SMALL: dict[str, JsonValue] = {
    "questions_per_step": 2,
    "rollouts_per_question": 4,
    "updates_per_step": 2,
    "micro_batch": 2,
    "save_every": 2,
    "learning_rate": 1e-3,
}

ASKS_ANYTHING = pytest.mark.filterwarnings("ignore:no word of the query")


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
    job = prepared(task, tmp_path)
    trainer: Any = job.trainer
    generate = trainer._generate_and_score_completions
    seen: list[tuple[Any, Sequence[Episode]]] = []

    def spying(inputs: list[dict[str, Any]]) -> Any:
        batch = generate(inputs)
        seen.append((batch, [row["episode"] for row in inputs]))
        return batch

    monkeypatch.setattr(trainer, "_generate_and_score_completions", spying)
    engine = Engine(task.seed_instructions, required=task.required)
    attachment = attach(trainer, engine, render=job.render)
    job.train(engine, lambda evaluation: None)
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


@ASKS_ANYTHING
def test_adapters_alone_are_trained_and_a_saved_policy_has_them_merged(
    task: OpenQa, tmp_path: Path
) -> None:
    single: dict[str, JsonValue] = {"bf16": False}  # logits of bfloat16 would differ
    changes: dict[str, JsonValue] = {"lora": {"rank": 4}, "arguments": single}
    job = prepared(task, tmp_path / "trial", changes=changes)
    trainer: Any = job.trainer
    trained = [name for name, weight in trainer.model.named_parameters() if weight.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    engine = Engine(task.seed_instructions, required=task.required)
    attachment = attach(trainer, engine, render=job.render)
    job.train(engine, lambda evaluation: None)
    attachment.detach()
    job.save(tmp_path / "policy")
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        adapted = trainer.model.eval()(ids).logits
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "policy")(ids).logits
        with trainer.model.disable_adapter():
            before = trainer.model(ids).logits
    torch.testing.assert_close(merged, adapted, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(adapted, before, atol=1e-4)


@ASKS_ANYTHING
def test_adapters_are_resumed(task: OpenQa, tmp_path: Path) -> None:
    def trained(folder: Path, *, stops: bool) -> dict[str, torch.Tensor]:
        for resume in (False, True) if stops else (False,):
            job = prepared(task, folder, resume, {"lora": {"rank": 4}})
            engine = Engine(task.seed_instructions, required=task.required)
            attachment = attach(job.trainer, engine, render=job.render)
            if stops and not resume:
                job.stop()
            job.train(engine, lambda evaluation: None)
            attachment.detach()
        assert job.trainer.model is not None
        weights = job.trainer.model.named_parameters()
        return {name: weight.detach().clone() for name, weight in weights if "lora_" in name}

    whole, resumed = (trained(tmp_path / str(stops), stops=stops) for stops in (False, True))
    torch.testing.assert_close(resumed, whole, atol=0, rtol=0)


RECIPES = [path.name for path in (EXAMPLES / "search_qa").glob("qwen*-trl*.yaml")]
HERE = (  # of a machine without a GPU, and two steps small
    "host.arguments.use_vllm=null",
    "host.arguments.bf16=null",
    "host.arguments.model_init_kwargs.dtype=float32",
    "host.arguments.use_cpu=true",
    "host.arguments.fsdp=null",
    "host.processes=1",
    "host.questions_per_step=2",
    "host.updates_per_step=2",
    "host.micro_batch=1",
    "task.searches=1",
    "task.turn_tokens=16",
    "task.observation_tokens=48",
    "task.prompt_tokens=500",
    "budget=20",
)


@ASKS_ANYTHING
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if "1.5b" in n else pytest.mark.nightly) for n in RECIPES]
)
def test_a_recipe_trains(name: str, settings: dict[str, JsonValue], tmp_path: Path) -> None:
    own = [f"task.{key}={json.dumps(settings[key])}" for key in ("model", *FILES, "retriever")]
    config = load(EXAMPLES / "search_qa" / name, (*HERE, *own))
    task = build("task", config.task)
    host = host_for(task, config.host_of("static"))
    job = cast(TrlTrainingJob, host.prepare(task, Trial(0, tmp_path, config.budget, 20)))
    engine = Engine(task.seed_instructions, required=task.required)
    attachment = attach(job.trainer, engine, render=job.render)
    job.train(engine, lambda evaluation: None)
    attachment.detach()
    assert (engine.step, job.trainer.state.global_step) == (2, 4)
