"""What the host makes of a trial before Ray starts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cpu_support.plugin import Colours
from evoprompt_verl.dataset import tools_of
from omegaconf import OmegaConf
from verl.utils.import_utils import resolve_config_path

from evoprompt.agents.tasks import Trial
from evoprompt.experiments.hosts.verl.host import VerlHost
from evoprompt.experiments.hosts.verl.section import section_text, task_of
from evoprompt.experiments.hosts.verl.settings import VerlHostSettings
from evoprompt.experiments.testing import HostSuite
from evoprompt.plugins import build
from evoprompt.support.errors import InputError

pytestmark = pytest.mark.usefixtures("colours")

COLOURS = {"name": "colours"}


class TestHost(HostSuite):
    def build(self) -> VerlHost:
        return host("some/model")


def host(model: Path | str, **settings: Any) -> VerlHost:
    usual = {"questions_per_step": 8, "gpus_per_node": 1, "prompt_tokens": 128}
    return VerlHost(VerlHostSettings.model_validate({"model": str(model), **usual, **settings}))


def trial(directory: Path, task: Mapping[str, Any] = COLOURS) -> Trial:
    return Trial(5, directory, 400, 200, task=task)


def test_a_trial_and_the_users_settings_reach_veRL(small_model: Path, tmp_path: Path) -> None:  # noqa: N802
    given = Trial(5, tmp_path, 400, 200, policy=small_model, task=COLOURS)
    arguments = {"algorithm.gamma": 0.5, "actor_rollout_ref.rollout.seed": 9}
    config = host("some/model", arguments=arguments).prepare(Colours(), given).trainer.config
    assert config.data.seed == config.actor_rollout_ref.actor.fsdp_config.seed == 5
    assert config.trainer.total_training_steps == 10
    assert config.data.max_response_length == Colours.limits.response_tokens
    assert config.actor_rollout_ref.model.path == str(small_model), "of an arm before"
    assert (config.algorithm.gamma, config.actor_rollout_ref.rollout.seed) == (0.5, 9)
    assert [tool["function"]["name"] for tool in tools_of(config)] == ["look_up"]


def test_a_folder_beside_the_current_one_is_found_by_the_workers(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(here)
    config = host(small_model).prepare(Colours(), trial(Path("../beside"))).trainer.config
    loops = config.actor_rollout_ref.rollout.agent.agent_loop_config_path
    assert resolve_config_path(loops) == loops  # veRL's own way to read it
    for path in (config.data.train_files, config.data.val_files, config.trainer.default_local_dir):
        assert Path(path).is_absolute()
        assert Path(path).exists()


def test_variables_are_set_unless_they_are_set_already(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOURS_A", "mine")
    monkeypatch.setenv("COLOURS_B", "to be forgotten afterwards")
    monkeypatch.delenv("COLOURS_B")
    variables = {"COLOURS_A": "theirs", "COLOURS_B": "theirs"}
    found = host(small_model, environment=variables).prepare(Colours(), trial(tmp_path))
    assert found._environment == {"COLOURS_A": "mine", "COLOURS_B": "theirs"}


def test_workers_build_the_task_from_the_text_of_its_section(
    small_model: Path, tmp_path: Path
) -> None:
    odd = "${HOME} \\${x} \\\\${y} 'quoted' \u20ac"
    section = {"name": "colours", "odd": odd, "deep": {"list": [1, None]}}
    limits = {"max_calls": 3, "turn_tokens": 48}
    loop = host(small_model, **limits).loop(trial(tmp_path, section))
    OmegaConf.save(OmegaConf.create([dict(loop)]), tmp_path / "loops.yaml")
    read: Any = OmegaConf.load(tmp_path / "loops.yaml")
    assert {name: read[0][name] for name in limits} == limits
    assert json.loads(section_text(read[0].task)) == section


def test_on_verls_command_line_the_task_is_that_of_the_engine(tmp_path: Path) -> None:
    written = OmegaConf.create(
        {"loop": {"task": {"name": "colours", "size": "${size}"}}, "size": 2}
    )
    assert json.loads(section_text(written.loop.task)) == {"name": "colours", "size": 2}
    named = OmegaConf.create({"evoprompt": {"task": "colours"}})
    assert json.loads(task_of(named, None)) == {"name": "colours"}
    assert json.loads(task_of(named, {"name": "other"})) == {"name": "other"}
    with pytest.raises(InputError, match="was given no task"):
        task_of(OmegaConf.create({}), None)


def test_what_is_not_named_is_refused(small_model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"required: the section of a configuration by which"):
        host(small_model).prepare(Colours(), trial(tmp_path, {}))
    with pytest.raises(InputError, match=r"no model is named.*required: host\.model"):
        build("host", {"name": "verl"}).prepare(Colours(), trial(tmp_path))


def test_a_model_and_a_task_that_cannot_work_are_refused_before_ray(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    shutil.copytree(small_model, model)
    (model / "model.safetensors").touch()
    task = Colours()
    monkeypatch.setattr(task, "questions", lambda split: ())
    with pytest.raises(InputError, match="Colours has no question in the split 'train'"):
        host(model).prepare(task, trial(tmp_path / "run"))
    (model / "chat_template.jinja").unlink()
    said = "tool calls were requested, but the tokenizer has no chat"
    with pytest.raises(InputError, match=said):
        host(model).prepare(Colours(), trial(tmp_path / "run"))


def test_an_engine_that_cannot_end_actions_is_refused_before_ray(
    small_model: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(small_model, model)
    (model / "model.safetensors").touch()
    task = Colours()
    host(model).prepare(task, trial(tmp_path / "vllm"))
    for engine in ("sglang", "trtllm"):
        chosen = host(model, arguments={"actor_rollout_ref.rollout.name": engine})
        with pytest.raises(InputError, match=f"rollout.name is {engine}, .*required: vllm"):
            chosen.prepare(task, trial(tmp_path / engine))
