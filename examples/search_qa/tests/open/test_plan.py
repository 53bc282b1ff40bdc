from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from pydantic import JsonValue

from evoprompt.agents.tasks import Plan, Trial
from evoprompt.errors import InputError
from evoprompt.experiments.hosts.trl.plan import gpu_gib, host_gib
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.experiments.requirements import ModelSize, model_size
from evoprompt.experiments.trial import host_for

HOST: dict[str, JsonValue] = {"questions_per_step": 4, "rollouts_per_question": 2}
SHARDED: dict[str, JsonValue] = {"fsdp": True, "use_vllm": True}


def task_of(settings: dict[str, JsonValue]) -> OpenQa:
    return OpenQa(OpenQaSettings.model_validate(settings))


def planned(task: OpenQa, tmp_path: Path, **host: JsonValue) -> Plan:
    found = host_for(task, {"name": "trl", **HOST, **host}).plan(task, Trial(0, tmp_path, 64, 32))
    assert found is not None
    return found


def chosen(**host: JsonValue) -> TrlSettings:
    return TrlSettings.model_validate({**HOST, **host})


def test_where_everything_is_here_nothing_is_missing(
    settings: dict[str, JsonValue], tmp_path: Path
) -> None:
    found = planned(task_of(settings), tmp_path)
    assert [need.text for need in found.needs if need.missing] == []
    figures = dict(found.figures)
    # 8 rollouts of 400 + 3 * 24 + 2 * 64 tokens.
    assert "4 questions x 2 = 8 rollouts" in figures["a step"]
    assert "at most 4,800 tokens" in figures["a step"]
    assert figures["steps"].startswith("at most 8,")
    assert figures["steps"] == "at most 8, without verification; at most 0 million tokens in all"
    assert "GPU memory" not in figures  # it is trained on a CPU
    assert not found.heavy  # so small that a check builds it


@pytest.mark.parametrize(
    ("setting", "value", "subject", "remedy"),
    [
        ("model", "no/such-model", "model", "hf download no/such-model"),
        ("train", "none.parquet", "train questions", "data prepare"),
        ("retriever", "http://127.0.0.1:9", "search server", "retriever serve"),
    ],
)
def test_what_is_missing_comes_with_its_remedy(
    settings: dict[str, JsonValue],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    value: str,
    subject: str,
    remedy: str,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    found = planned(task_of({**settings, setting: value}), tmp_path)
    (need,) = [need for need in found.needs if need.missing]
    assert need.subject == subject
    assert remedy in need.remedy


def test_a_configuration_for_gpus_asks_for_them(
    settings: dict[str, JsonValue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    found = planned(task_of(settings), tmp_path, processes=2, micro_batch=4)
    missing = {need.subject: need.text for need in found.needs if need.missing}
    assert "2 CUDA device(s)" in missing["GPU"]
    assert "--num_processes 2" in dict(found.figures)["start"]


def test_memory_is_weights_and_logits(settings: dict[str, JsonValue]) -> None:
    task = task_of(settings)
    size = ModelSize(parameters=2**30, vocabulary=1024, exact=True)
    alone = gpu_gib(chosen(micro_batch=2), task.limits, size)
    # 20 bytes a weight, and 2 rollouts of 200 tokens by 1,024 words by 12 bytes.
    assert alone == pytest.approx(20 + 2 * 200 * 1024 * 12 / 2**30)
    arguments: dict[str, JsonValue] = {"fsdp": True, "use_vllm": True, "beta": 0}
    sharded = chosen(micro_batch=2, processes=2, arguments=arguments)
    assert gpu_gib(sharded, task.limits, size) == pytest.approx(8 + 2 * 200 * 1024 * 12 / 2**30)


def test_the_size_is_read_from_the_files_or_else_from_the_name(
    settings: dict[str, JsonValue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = model_size(str(settings["model"]))
    assert exact is not None
    assert exact.exact
    assert 10_000 < exact.parameters < 1_000_000
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    named = model_size("Qwen/Qwen2.5-0.5B-Instruct")
    assert named is not None
    assert (named.parameters, named.exact) == (500_000_000, False)
    assert model_size("nobody/knows") is None


def test_a_wrong_setting_is_found_in_the_plan(
    settings: dict[str, JsonValue], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no_such_argument"):
        planned(task_of(settings), tmp_path, arguments={"no_such_argument": 1})


@pytest.mark.parametrize(
    ("arguments", "bytes_a_weight"),
    [
        ({}, 8),  # policy and reference in single precision
        ({"beta": 0}, 4),
        ({"model_init_kwargs": {"dtype": "bfloat16"}}, 4),
        ({"model_init_kwargs": {"dtype": "bfloat16"}, "beta": 0}, 2),
        # FSDP turns the policy into single precision, the reference being on the GPUs by then
        ({"model_init_kwargs": {"dtype": "bfloat16"}, **SHARDED}, 4),
        (SHARDED, 8),
    ],
)
def test_main_memory_is_what_every_process_loads(
    arguments: dict[str, JsonValue], bytes_a_weight: int
) -> None:
    host = chosen(processes=2, micro_batch=1, arguments=arguments)
    size = ModelSize(2**30, 1024, exact=True)
    assert host_gib(host, size) == 2 * bytes_a_weight
