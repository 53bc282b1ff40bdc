"""What a plan tells and refuses; nothing is loaded or started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cpu_support.plugin import Colours
from pydantic import JsonValue

from evoprompt.agents import Limits
from evoprompt.agents.tasks import Need, Plan, Trial
from evoprompt.experiments.hosts.verl.host import VerlHost
from evoprompt.experiments.hosts.verl.settings import VerlHostSettings
from evoprompt.experiments.requirements import FLASH_ATTENTION
from evoprompt.plugins import build
from evoprompt.support.errors import InputError
from evoprompt.types import Question

ABSENT = "nobody/Nothing-3B"


class Asking(Colours):
    """Long episodes, and a file that is missing as long as nothing is asked."""

    limits = Limits(calls=4, turn_tokens=500, observation_tokens=500)
    asked: Sequence[Question] = ()

    def questions(self, split: str) -> Sequence[Question]:
        assert self.asked, "asked although the file is missing"
        return self.asked

    def needs(self) -> Sequence[Need]:
        return [
            Need("questions", "all here" if self.asked else "no file", "" if self.asked else "x")
        ]


def planned(
    directory: Path, task: Asking | None = None, resume: bool = False, **settings: object
) -> Plan:
    usual = {"model": ABSENT, "questions_per_update": 256}
    found = VerlHost(VerlHostSettings.model_validate({**usual, **settings}))
    return found.plan(task or Asking(), Trial(0, directory, 768_000, 76_800, resume))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("planned")
    found = planned(folder)
    assert list(folder.iterdir()) == []
    return found


def test_a_plan_tells_what_a_step_and_the_training_take(plan: Plan) -> None:
    figures = dict(plan.figures)
    assert "512 questions x 5 = 2,560 rollouts, 8 in a pass" in figures["a step"]
    assert "at most 22,005,760 tokens, at most 10,240 tool calls" in figures["a step"]
    assert figures["steps"].startswith("at most 300")
    assert "6,601,728,000 tokens" in figures["steps"]
    assert "3.00 billion weights, by the model's name" in figures["GPU memory"]


def test_a_plan_checks_the_memory_of_gpus_and_machine_and_the_room_on_the_disk(plan: Plan) -> None:
    # 3e9 x 16 / 8 bytes resident, 8 x 8596 x 151936 x 4 bytes of logits; 8 x 4 + 2 bytes a weight.
    assert "at most about 45 GiB on each GPU" in dict(plan.figures)["GPU memory"]
    assert dict(plan.figures)["memory"].startswith("about 95.0 GiB")
    needs = {need.subject: need for need in plan.needs}
    assert "8 CUDA device(s) with 45 GiB each needed" in needs["GPU"].text
    assert needs["memory"].text.startswith("95 GiB needed while models load")
    # 4 bytes a weight of the policy; 16 of each of two checkpoints, and of the one being written.
    assert needs["disk"].text.startswith("145.3 GiB needed, ")


def test_a_trial_that_is_resumed_has_its_checkpoints(tmp_path: Path) -> None:
    assert "disk" not in [need.subject for need in planned(tmp_path, resume=True).needs]


def test_a_plan_names_what_is_missing_with_the_remedy(plan: Plan) -> None:
    needs = {need.subject: need for need in plan.needs}
    assert {"vllm", "flash_attn", "model", "questions"} <= set(needs)
    assert f"pip install {FLASH_ATTENTION} --no-build-isolation" in needs["flash_attn"].remedy
    assert needs["model"].remedy == f"hf download {ABSENT}"
    assert needs["questions"].missing


def test_shorter_episodes_smaller_passes_and_more_machines_count(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"max_calls": 1, "turn_tokens": 100}
    figures = dict(planned(tmp_path, micro_batch=1, **limits).figures)
    assert "700 of 2 actions and 1 observation" in figures["a rollout"]
    assert "at most about 14 GiB" in figures["GPU memory"]
    task = Asking()
    task.tools = ()  # one action, as under TRL
    figures = dict(planned(tmp_path, task, micro_batch=None, nodes=4).figures)
    assert "500 of 1 action and 0 observations" in figures["a rollout"]
    assert "80 in a pass of each process" in figures["a step"]


@pytest.mark.parametrize(
    "settings", [{"offload": "perhaps"}, {"lora": {"rank": 0}}, {"questions_per_update": 0}]
)
def test_a_wrong_value_is_refused_in_one_line(settings: dict[str, JsonValue]) -> None:
    with pytest.raises(InputError, match=next(iter(settings))) as refused:
        build("host", {"name": "verl", "model": ABSENT, **settings})
    assert "\n" not in str(refused.value)


ACTOR = "actor_rollout_ref.actor"


@pytest.mark.parametrize(
    ("arguments", "gib"),
    [
        # 6e9 resident, and 8 x 8596 tokens of 151,936 logits with so many bytes each.
        ({}, 45),
        ({f"{ACTOR}.entropy_coeff": 0.001}, 64),
        ({f"{ACTOR}.fsdp_config.use_torch_compile": False}, 64),
        (
            {
                f"{ACTOR}.fsdp_config.use_torch_compile": False,
                f"{ACTOR}.entropy_from_logits_with_chunking": True,
            },
            45,
        ),
        (
            {
                f"{ACTOR}.fsdp_config.use_torch_compile": False,
                f"{ACTOR}.entropy_coeff": 0.001,
            },
            83,
        ),
        ({f"{ACTOR}.use_dynamic_bsz": True, f"{ACTOR}.ppo_max_token_len_per_gpu": 24576}, 19),
    ],
)
def test_memory_is_that_of_how_the_entropy_is_computed(
    tmp_path: Path, arguments: dict[str, object], gib: int
) -> None:
    figures = dict(planned(tmp_path, arguments=arguments).figures)
    assert f"at most about {gib} GiB on each GPU" in figures["GPU memory"]


def test_what_waits_in_main_memory_takes_none_of_a_gpu_while_it_samples(tmp_path: Path) -> None:
    alone = dict(planned(tmp_path, gpus_per_node=1).figures)
    moved = dict(planned(tmp_path, gpus_per_node=1, offload=True).figures)
    # 3e9 x 16 bytes beside vLLM's .6; 3e9 x 16 and the logits. 3e9 x (4 + 2) bytes; 3e9 x (12 + 2).
    assert "at most about 112 GiB on each GPU" in alone["GPU memory"]
    assert "at most about 84 GiB on each GPU" in moved["GPU memory"]
    assert alone["memory"].startswith("about 16.8 GiB")
    assert moved["memory"].startswith("about 39.1 GiB")


def test_attention_without_flash_attn_is_over_a_whole_pass_and_its_mask_has_room(
    tmp_path: Path,
) -> None:
    sdpa = {"+actor_rollout_ref.model.override_config.attn_implementation": "sdpa"}
    flash, masked = planned(tmp_path), planned(tmp_path, arguments=sdpa)
    assert "flash_attn" in [need.subject for need in flash.needs]
    assert "flash_attn" not in [need.subject for need in masked.needs]
    assert masked.seconds["generation"] == flash.seconds["generation"]
    # By the name alone the layers of the model are not known, and so not what attention takes.
    assert masked.seconds["update"] == flash.seconds["update"]
    # 3 bytes for each pair of the 8 x 8,596 tokens of a pass.
    assert "at most about 58 GiB on each GPU" in dict(masked.figures)["GPU memory"]
