from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import torch
from evoprompt_search_qa.methods.tiny import TINY
from evoprompt_search_qa.tiny.policy import load_policy
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings
from evoprompt_search_qa.training.offline import OfflineTrainee
from pydantic import JsonValue

from evoprompt.agents.tasks import Trial
from evoprompt.attachment import attach
from evoprompt.engine import Engine
from evoprompt.errors import AttachError, InputError, PluginError
from evoprompt.plugins import build
from evoprompt.roles import BuildContext
from evoprompt.testing import SampleTask

TASK = SearchQa(SearchQaSettings(train=64, validation=20, test=30))
torch.set_num_threads(1)


def prepared(
    host: str, directory: Path, task: SearchQa = TASK, **settings: JsonValue
) -> OfflineTrainee:
    found = build("host", {"name": host, **settings})
    return cast(OfflineTrainee, found.prepare(task, Trial(0, directory, 160, 80)))


def trained(trainee: OfflineTrainee, instruction: str) -> tuple[Engine, list[tuple[int, float]]]:
    engine = Engine([instruction], required=TASK.required)
    attachment = attach(trainee.trainer, engine, render=trainee.render)
    curve: list[tuple[int, float]] = []
    trainee.train(engine, lambda found: curve.append((engine.rollouts, found.value)))
    attachment.detach()
    return engine, curve


def weights(trainee: OfflineTrainee) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in trainee.policy.parameters()])


def test_prompted_leaves_the_policy_as_it_is(tmp_path: Path) -> None:
    trainee = prepared("prompted", tmp_path, method="rag")
    before = weights(trainee)
    engine, curve = trained(trainee, TINY.instructions["rag"])
    assert torch.equal(weights(trainee), before)
    assert engine.rollouts == 0
    assert [rollouts for rollouts, _ in curve] == [0]
    found = trainee.evaluate(TINY.instructions["rag"], "test")
    assert found.by_stratum["1"] > 0.8
    assert found.by_stratum["2"] < 0.2
    assert found.metrics["tool_calls"] == 1.0


def test_supervised_training_learns_the_answers_by_heart_and_spends_no_rollout(
    tmp_path: Path,
) -> None:
    direct = TINY.instructions["direct"]
    few = SearchQa(SearchQaSettings(train=16, validation=10, test=10))
    settings: dict[str, JsonValue] = {"epochs": 30, "batch": 16, "learning_rate": 5e-3}
    trainee = prepared("sft", tmp_path, few, method="direct", **settings)
    engine, curve = trained(trainee, direct)
    assert engine.rollouts == 0
    assert curve[0] == (0, 0.0)
    assert trainee.evaluate(direct, "train").value > 0.5
    assert trainee.evaluate(direct, "train").metrics["tool_calls"] == 0.0


def test_rejection_spends_its_budget_and_imitates_what_was_right(tmp_path: Path) -> None:
    seed = TASK.seed_instructions[0]
    trainee = prepared(
        "rejection", tmp_path, method="search-r1", questions_per_step=8, epochs=2, batch=4
    )
    engine, curve = trained(trainee, seed)
    assert engine.rollouts == 160
    assert [rollouts for rollouts, _ in curve] == [0, 160]
    assert curve[-1][1] > curve[0][1]


def test_the_policy_is_saved_as_it_is_loaded(tmp_path: Path) -> None:
    trainee = prepared("prompted", tmp_path, method="direct")
    trainee.save(tmp_path / "saved")
    policy, _ = load_policy(tmp_path / "saved")
    saved = torch.cat([weight.detach().flatten() for weight in policy.parameters()])
    assert torch.equal(saved, weights(trainee))


def test_a_training_that_is_told_to_stop_returns_early(tmp_path: Path) -> None:
    trainee = prepared("rejection", tmp_path, method="search-r1")
    trainee.stop()
    engine, curve = trained(trainee, TASK.seed_instructions[0])
    assert engine.rollouts == 0
    assert len(curve) == 1


def test_an_instruction_that_is_to_evolve_is_refused(tmp_path: Path) -> None:
    proposer = build("proposer", {"name": "sentence-edit"}, BuildContext(task=TASK))
    engine = Engine(TASK.seed_instructions, proposer=proposer)
    with pytest.raises(AttachError, match="host 'prompted' keeps one instruction"):
        attach(prepared("prompted", tmp_path, method="rag").trainer, engine)


@pytest.mark.parametrize(
    ("host", "settings", "said"),
    [
        ("prompted", {"method": "rga"}, "did you mean 'rag'"),
        ("prompted", {}, "method is missing"),
        ("sft", {"method": "direct", "epoch": 2}, "unknown setting 'epoch'"),
    ],
)
def test_wrong_settings_are_refused(
    tmp_path: Path, host: str, settings: dict[str, JsonValue], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        prepared(host, tmp_path, TASK, **settings)


def test_an_unknown_host_lists_the_known_ones() -> None:
    with pytest.raises(PluginError, match=r"did you mean 'rejection'\? \(known: .*prompted, .*trl"):
        build("host", {"name": "rejecton"})


def test_another_task_is_refused(tmp_path: Path) -> None:
    host = build("host", {"name": "prompted", "method": "rag"})
    with pytest.raises(InputError, match="host 'prompted' cannot train a SampleTask"):
        host.prepare(SampleTask(), Trial(0, tmp_path, 8, 8))
