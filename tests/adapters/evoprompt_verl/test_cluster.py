"""On a cluster that is there already the key and the working directory travel with the job."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from evoprompt_verl import cluster, probing, workplace
from omegaconf import DictConfig, OmegaConf

from evoprompt.lm.budget import Charge

Changed = Callable[[Mapping[str, object]], DictConfig]

JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Where ``ray job submit`` leaves the configuration of a job for ``ray.init``."""

SECTION = {"proposer": {"name": "reflection", "lm": {"model": "openai/gpt-5-mini"}}}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that holds a key, and knows of no cluster."""
    monkeypatch.setattr(cluster, "read_ray_address", lambda temporary: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    # Set and removed, so that what the code under test writes is undone.
    monkeypatch.setenv(JOB, "{}")
    monkeypatch.delenv(JOB)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("MY_KEY", "mine")


@pytest.fixture
def joining(sound: DictConfig) -> DictConfig:
    """A run that joins a cluster."""
    config = sound.copy()
    OmegaConf.update(config, "ray_kwargs.ray_init.address", "auto", force_add=True)
    return config


def runtime() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(os.environ[JOB])
    return dict(found["runtime_env"])


def test_the_key_and_the_directory_reach_every_process(joining: DictConfig) -> None:
    cluster.equip(joining, SECTION)
    variables = runtime()["env_vars"]
    assert variables["OPENAI_API_KEY"] == "secret"
    assert variables[workplace.DIRECTORY] == str(Path.cwd())
    assert "MY_KEY" not in variables
    assert runtime()["worker_process_setup_hook"] == "evoprompt_verl.workplace.enter"
    assert "secret" not in OmegaConf.to_yaml(joining), "veRL prints its configuration"


def test_what_the_command_has_asked_of_language_models_reaches_the_task_runner(
    joining: DictConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(probing.SPENT, "{}")  # so that it is undone
    spent = {"openai/gpt-5-mini": Charge(1, 20, 300, 0.001)}
    probing.hand_over(spent)
    cluster.equip(joining, SECTION)
    monkeypatch.setenv(probing.SPENT, runtime()["env_vars"][probing.SPENT])
    assert probing.handed_over() == spent


def test_a_cluster_made_for_the_run_inherits_everything_anyway(sound: DictConfig) -> None:
    cluster.equip(sound, SECTION)
    assert JOB not in os.environ


@pytest.mark.parametrize("how", ["address", "environment", "ray start"])
def test_a_cluster_is_known_however_it_is_found(
    sound: DictConfig, joining: DictConfig, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "environment":
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    if how == "ray start":
        monkeypatch.setattr(cluster, "read_ray_address", lambda temporary: "10.0.0.1:6379")
    assert cluster.joins(joining if how == "address" else sound)


def test_what_the_user_says_of_the_runtime_stays(
    joining: DictConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = {
        "runtime_env": {"working_dir": "gcs://x.zip", "env_vars": {"A": "b"}},
        "metadata": {"c": "d"},
    }
    monkeypatch.setenv(JOB, json.dumps(submitted))
    own = {"env_vars": {"OPENAI_API_KEY": "other"}}
    OmegaConf.update(joining, "ray_kwargs.ray_init.runtime_env", own, force_add=True)
    cluster.equip(joining, SECTION)
    assert json.loads(os.environ[JOB]) == submitted


@pytest.mark.parametrize(
    ("proposer", "names"),
    [
        ({"name": "x", "lm": "openai/gpt-4o"}, ["OPENAI_API_KEY"]),
        ({"name": "x", "lm": {"model": "mine/x", "api_key_env": "MY_KEY"}}, ["MY_KEY"]),
        ({"name": "m", "proposers": [{"name": "x", "lm": "openai/a"}]}, ["OPENAI_API_KEY"]),
        (None, []),
    ],
)
def test_only_what_the_language_models_need_travels(
    monkeypatch: pytest.MonkeyPatch, proposer: object, names: list[str]
) -> None:
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "AWS_", "MINE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert list(cluster.credentials({"proposer": proposer})) == names


def test_a_process_works_where_the_command_was_typed_or_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv(workplace.DIRECTORY, str(tmp_path))
    workplace.enter()
    assert Path.cwd() == tmp_path
    assert workplace.misplaced() == ""
    monkeypatch.setenv(workplace.DIRECTORY, str(tmp_path / "elsewhere"))
    workplace.enter()
    assert Path.cwd() == tmp_path
    assert "a directory that all machines see" in workplace.misplaced()
