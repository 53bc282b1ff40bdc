from __future__ import annotations

import re
from pathlib import Path

import pytest
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from pydantic import JsonValue

from evoprompt.agents.tasks import Plan, Trial
from evoprompt.experiments.trial_parts import host_for
from evoprompt.support.errors import InputError

HOST: dict[str, JsonValue] = {"questions_per_step": 4, "rollouts_per_question": 2}


def task_of(settings: dict[str, JsonValue]) -> OpenQa:
    return OpenQa(OpenQaSettings.model_validate(settings))


def planned(task: OpenQa, tmp_path: Path, **host: JsonValue) -> Plan:
    return host_for(task, {"name": "trl", **HOST, **host}).plan(task, Trial(0, tmp_path, 64, 32))


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
    # The prompts are counted; 24 * .25 tokens of 2 actions and 64 of an observation are assumed.
    assert re.fullmatch(
        r"at most 8, without verification; about [78],.00, at most 38,400 tokens in all",
        figures["steps"],
    )
    assert "GPU memory" not in figures  # it is trained on a CPU


def test_kept_policies_have_their_room_on_the_disk(
    settings: dict[str, JsonValue], tmp_path: Path
) -> None:
    host, task = host_for(task_of(settings), {"name": "trl", **HOST}), task_of(settings)
    plans = [
        host.plan(task, Trial(0, tmp_path, 64, 32, keeps_policies=one)) for one in (False, True)
    ]
    last, all_of_them = (dict(plan.figures).get("policies") for plan in plans)
    assert last is None
    assert all_of_them is not None
    assert all_of_them.startswith("3, of each evaluation, kept and tested: ")


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


@pytest.mark.parametrize(
    ("host", "required"),
    [
        ({"lora": {"rank": 0}}, "greater than or equal to 1"),
        ({"lora": {"r": 16}}, "lora"),
        ({"lora": {}, "arguments": {"fsdp": True, "use_vllm": True}}, "whole weights on each GPU"),
    ],
)
def test_adapters_that_cannot_be_are_refused(
    settings: dict[str, JsonValue], tmp_path: Path, host: dict[str, JsonValue], required: str
) -> None:
    with pytest.raises(InputError, match=required) as refused:
        planned(task_of(settings), tmp_path, **host)
    assert "\n" not in str(refused.value)
