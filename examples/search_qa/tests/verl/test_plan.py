from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY
from evoprompt_search_qa.verl.tiny import CHAT_TEMPLATE

from evoprompt.errors import InputError
from evoprompt.plugins import build
from evoprompt.runs import yamlfile
from evoprompt.tasks import Plan, Trial

EXAMPLES = Path(__file__).parents[2]


def planned(directory: Path, given: Mapping[str, object] | None = None, **host: object) -> Plan:
    file = yamlfile.read(EXAMPLES / "qwen2.5-3b-verl.yaml")
    task, settings = dict(file["task"]), dict(file["host"])  # type: ignore[arg-type]
    del task["name"], settings["name"]
    budget = file["budget"]
    assert isinstance(budget, int)
    # Nothing listens there, on any machine.
    task = {**task, "retriever": "http://127.0.0.1:9", "model": "nobody/Nothing-3B"}
    task.update(given or {})  # type: ignore[arg-type]
    chosen = build("host", {"name": "verl", **settings, **host})
    trial = Trial(0, directory, budget, budget)
    found = chosen.plan(OpenQa(OpenQaSettings.model_validate(task)), trial)
    assert found is not None
    return found


def test_a_plan_tells_what_a_step_and_the_training_take(tmp_path: Path) -> None:
    figures = dict(planned(tmp_path).figures)
    assert "512 questions x 5 = 2,560 rollouts, 2 update(s)" in figures["a step"]
    assert "at most 22,005,760 tokens, 10,240 searches" in figures["a step"]
    assert figures["steps"].startswith("at most 300")
    assert "6.6 billion tokens" in figures["steps"]
    assert figures["a GPU"] == "320 rollouts a step, in passes of 8"
    assert "3.00 billion weights, by the model's name" in figures["GPU memory"]


def test_a_plan_checks_the_memory_of_gpus_and_machine(tmp_path: Path) -> None:
    found = planned(tmp_path)
    # 3e9 x 16 / 8 bytes resident, 8 x 8596 x 151936 x 4 bytes of logits; 8 x 4 + 2 bytes a weight.
    assert "at most about 45 GiB on each of 8 GPUs" in dict(found.figures)["GPU memory"]
    assert dict(found.figures)["host memory"].startswith("about 95 GiB")
    needs = {need.subject: need for need in found.needs}
    assert "8 CUDA device(s) with 45 GiB each needed" in needs["GPU"].text
    assert needs["memory"].text.startswith("95 GiB needed while models load")


def test_smaller_passes_need_less_memory(tmp_path: Path) -> None:
    figures = dict(planned(tmp_path, micro_batch=1).figures)
    assert "at most about 14 GiB" in figures["GPU memory"]


def test_more_machines_share_the_rollouts(tmp_path: Path) -> None:
    assert dict(planned(tmp_path, nodes=4).figures)["a GPU"].startswith("80 rollouts")


def test_a_plan_names_what_is_missing_with_the_remedy(tmp_path: Path) -> None:
    needs = {need.subject: need for need in planned(tmp_path).needs}
    assert {"vllm", "flash_attn", "model", "search server", "disk"} <= set(needs)
    assert {"train questions", "validation questions", "test questions"} <= set(needs)
    assert needs["model"].remedy == "hf download nobody/Nothing-3B"
    assert "retriever serve" in needs["search server"].remedy


def test_a_wrong_setting_is_found_by_the_plan(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"actor_rollout_ref\.rollout\.nn is 3"):
        planned(tmp_path, arguments={"actor_rollout_ref.rollout.nn": 3})


def test_a_model_without_room_for_the_instruction_is_found_by_the_plan(tmp_path: Path) -> None:
    row = {"id": "a", "question": "why", "golden_answers": ["because"]}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "train.parquet")
    task = {"model": str(SHIPPED_POLICY), "train": str(tmp_path / "train.parquet")}
    template = {"actor_rollout_ref.model.custom_chat_template": CHAT_TEMPLATE}
    with pytest.raises(InputError, match="but the model allows 512 tokens"):
        planned(tmp_path, task, arguments=template)
    with pytest.raises(InputError, match=r"required: at most data\.max_prompt_length 20"):
        planned(tmp_path, {**task, "prompt_tokens": 20}, arguments=template)


def test_a_mode_that_the_adapter_refuses_is_found_by_the_plan(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"drop trainer\.use_v1 or set it to True"):
        planned(tmp_path, arguments={"trainer.use_v1": False})
