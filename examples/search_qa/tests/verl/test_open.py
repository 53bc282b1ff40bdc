from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from evoprompt_search_qa.open.task import OpenQa
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, ListConfig, OmegaConf

from evoprompt.agents.tasks import Trial
from evoprompt.experiments.config import RunConfig, load
from evoprompt.experiments.hosts.verl.arguments import arguments
from evoprompt.experiments.hosts.verl.configuration import checked
from evoprompt.experiments.hosts.verl.host import VerlHost
from evoprompt.experiments.hosts.verl.section import TASK_LOOP, task_of
from evoprompt.experiments.trial_parts import host_for
from evoprompt.plugins import build

EXAMPLES = Path(__file__).parents[2]
DOCS = EXAMPLES.parents[1] / "docs"
CONFIGURATIONS = {"3b": (5e-7, 4), "7b": (3e-7, 6)}
"""Learning rate and searches of the paper, by size."""

OWN = {  # where a run writes and reads is up to who starts it
    "data.train_files",
    "data.val_files",
    "trainer.default_local_dir",
    "trainer.resume_mode",
    "trainer.total_epochs",
    "trainer.save_freq",
    "actor_rollout_ref.rollout.agent.agent_loop_config_path",
}


def read(size: str) -> tuple[RunConfig, OpenQa]:
    config = load(EXAMPLES / f"qwen2.5-{size}-verl.yaml")
    task = build("task", config.task)
    assert isinstance(task, OpenQa)
    return config, task


def settings_of(config: RunConfig, task: OpenQa, directory: Path) -> Mapping[str, object]:
    host = host_for(task, config.host_of("coevolve"))
    assert isinstance(host, VerlHost)
    trial = Trial(0, directory, config.budget_of("coevolve"), config.evaluate_every)
    return arguments(host.settings, host.settings.limits(task), trial)


@pytest.mark.parametrize("size", CONFIGURATIONS)
def test_the_numbers_are_the_papers(size: str, tmp_path: Path) -> None:
    learning_rate, searches = CONFIGURATIONS[size]
    config, task = read(size)
    found = checked(settings_of(config, task, tmp_path))
    actor, rollout = found.actor_rollout_ref.actor, found.actor_rollout_ref.rollout
    assert found.trainer.total_training_steps == 300
    assert found.data.train_batch_size == 512
    assert actor.ppo_mini_batch_size == 64  # 8 updates a step: Search-R1 makes 10
    assert actor.ppo_micro_batch_size_per_gpu * found.trainer.n_gpus_per_node == 64
    assert (rollout.n, rollout.temperature, rollout.top_p) == (5, 1.0, 1.0)
    assert actor.optim.lr == learning_rate
    assert (actor.optim.lr_scheduler_type, actor.optim.lr_warmup_steps_ratio) == ("cosine", 0.1)
    assert (actor.use_kl_loss, actor.kl_loss_coef, actor.clip_ratio) == (True, 0.001, 0.2)
    assert found.algorithm.adv_estimator == "grpo"
    assert found.data.max_prompt_length == 4096
    assert found.data.max_response_length == (searches + 1) * 500 + searches * 500
    assert rollout.max_model_len == 4096 + found.data.max_response_length
    assert rollout.name == "vllm"
    assert task.settings.retriever == "http://127.0.0.1:8000"
    assert (task.settings.topk, task.settings.searches) == (3, searches)


def test_verls_own_command_line_trains_the_same(tmp_path: Path) -> None:
    """The command in the guide, composed as veRL would, has every value of the 3B file."""
    config, task = read("3b")
    wanted = {
        name: value
        for name, value in settings_of(config, task, tmp_path).items()
        if name not in OWN
    }
    command = re.search(
        r"```bash\n(python -m verl\.trainer\.main_ppo .*?)```",
        (DOCS / "reference" / "search-qa.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert command
    given = shlex.split(command[1].replace("\\\n", " "))[3:]
    composed = composed_by_hydra(given)
    for name, value in wanted.items():
        found = OmegaConf.select(composed, name)
        assert found == value, name
    agent = composed.actor_rollout_ref.rollout.agent
    (loop,) = cast("ListConfig", OmegaConf.load(EXAMPLES.parents[1] / agent.agent_loop_config_path))
    assert loop._target_ == TASK_LOOP
    assert agent.default_agent_loop == loop.name
    played = build("task", json.loads(task_of(composed, loop.get("task"))))
    assert isinstance(played, OpenQa)
    asked = {"validation_questions": None}  # of evaluations, which evoprompt run makes
    assert played.settings == task.settings.model_copy(update=asked)
    assert composed.evoprompt.preset == config.engine_of("coevolve").numbers.preset
    assert composed.evoprompt.placement == task.placement
    assert list(composed.evoprompt.services) == [task.settings.retriever]


def composed_by_hydra(given: list[str]) -> DictConfig:
    import verl  # noqa: F401  (the front door registers itself where veRL is)

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", given)
