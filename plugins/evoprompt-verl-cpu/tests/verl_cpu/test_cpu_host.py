from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evoprompt_verl_cpu import ROLLOUT, environment
from evoprompt_verl_cpu.host import ARGUMENTS
from evoprompt_verl_cpu.settings import CpuSettings
from ray.exceptions import RayTaskError

from evoprompt import Engine
from evoprompt.agents.tasks import Trial
from evoprompt.experiments.hosts.verl import cluster
from evoprompt.experiments.testing import Additions, HostSuite
from evoprompt.plugins import build
from evoprompt.support.errors import InputError


class TestHost(HostSuite):
    def build(self) -> Any:
        return build("host", {"name": "verl-cpu", "model": "some/model"})


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    own_names = ("TQDM_DISABLE", "OMP_NUM_THREADS", "TQ_NUM_THREADS", "VERL_LOGGING_LEVEL")
    for name in (*environment(), *own_names):
        monkeypatch.setenv(name, "to be forgotten afterwards")
        monkeypatch.delenv(name)


def prepared(directory: Path, **settings: Any) -> Any:
    host = build("host", {"name": "verl-cpu", "model": "some/model", **settings})
    return host.prepare(Additions(), Trial(0, directory, 800, 800, task={"name": "sample"}))


@pytest.mark.usefixtures("clean")
def test_it_trains_on_a_cpu_with_its_own_rollout_backend(tmp_path: Path) -> None:
    config = prepared(tmp_path).trainer.config
    assert config.trainer.device == "cpu"
    assert config.actor_rollout_ref.rollout.name == ROLLOUT
    assert config.trainer.n_gpus_per_node == 1
    assert {name: os.environ[name] for name in environment()} == dict(environment())


@pytest.mark.usefixtures("clean")
def test_what_a_configuration_says_wins(tmp_path: Path) -> None:
    given = {"actor_rollout_ref.actor.loss_agg_mode": "seq-mean-token-mean"}
    assert given.keys() <= ARGUMENTS.keys()
    found = prepared(tmp_path, arguments=given, environment={"TQDM_DISABLE": "0"})
    config = found.trainer.config
    assert config.actor_rollout_ref.actor.loss_agg_mode == "seq-mean-token-mean"
    assert config.actor_rollout_ref.actor.optim.weight_decay == 0
    assert os.environ["TQDM_DISABLE"] == "0"


@pytest.mark.usefixtures("clean")
def test_an_error_of_a_worker_is_raised_without_the_traces_of_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_error: Any = RayTaskError
    out_of_memory = MemoryError("the node runs low on memory")

    def fail(*arguments: Any, **settings: Any) -> None:
        raise task_error("update_weights", "a trace of 40 lines", out_of_memory)

    job = prepared(tmp_path)
    monkeypatch.setattr(cluster, "start", fail)
    with pytest.raises(MemoryError, match=r"^the node runs low"):
        job.train(Engine(["Answer."], proposer=None), lambda evaluation: None)
    workers = SimpleNamespace(save_checkpoint=fail)
    monkeypatch.setattr(job.trainer, "actor_rollout_wg", workers, raising=False)
    monkeypatch.setattr(job.trainer, "global_steps", 1, raising=False)
    with pytest.raises(MemoryError, match=r"^the node runs low"):
        job.save(tmp_path / "policy")


def test_it_plans_what_a_step_is(tmp_path: Path) -> None:
    host = build("host", {"name": "verl-cpu", "model": "some/model", "questions_per_step": 4})
    found = host.plan(Additions(), Trial(0, tmp_path, 800, 800, task={"name": "sample"}))
    assert (found.rollouts_per_step, found.rollouts_per_question) == (20, 5)
    assert dict(found.figures)["steps"].startswith("at most 40")
    assert [need.subject for need in found.needs if need.missing] == ["model"]


@pytest.mark.parametrize("name", CpuSettings.__annotations__)
def test_its_own_defaults_are_limited_like_those_of_the_host_verl(name: str) -> None:
    given = {"name": "verl-cpu", "model": "some/model", name: -1}
    with pytest.raises(InputError, match=f"host 'verl-cpu': {name}"):
        build("host", given)
