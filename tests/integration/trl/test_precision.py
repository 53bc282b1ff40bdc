"""In which precision TRL trains: chosen for the device, the same for good, and told where slow."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from adding_task import Adding, save_model
from pydantic import JsonValue

from evoprompt.agents.tasks import Plan, Trial
from evoprompt.experiments.hosts.trl.job import TrlTrainingJob
from evoprompt.experiments.trial_parts import host_for

NATIVE = {"avx2": True, "avx512_bf16": True, "amx_bf16": True}
EMULATED = {"avx2": True, "avx512_bf16": False, "amx_bf16": False}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"))


def on(flags: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags)


def host(model: str, bf16: bool | None, use_cpu: bool | None = True) -> Any:
    arguments: dict[str, JsonValue] = {"use_cpu": use_cpu, "bf16": bf16}
    return host_for(Adding(), {"name": "trl", "model": model, "arguments": arguments})


def prepared(model: str, folder: Path, bf16: bool | None, resume: bool = False) -> TrlTrainingJob:
    trial = Trial(0, folder, 24, 8, resume)
    return cast(TrlTrainingJob, host(model, bf16).prepare(Adding(), trial))


def planned(model: str, bf16: bool | None) -> Plan:
    return cast(Plan, host(model, bf16).plan(Adding(), Trial(0, Path("none"), 24, 8)))


def dtype_of(job: TrlTrainingJob) -> str:
    return str(job.trainer.accelerator.mixed_precision)


@pytest.mark.parametrize(
    ("flags", "bf16", "computes"), [(EMULATED, None, "no"), (NATIVE, False, "no")]
)
def test_the_device_decides_where_the_settings_do_not(
    flags: dict[str, bool],
    bf16: bool | None,
    computes: str,
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on(flags, monkeypatch)
    assert dtype_of(prepared(model, tmp_path, bf16)) == computes


def test_a_plan_says_that_a_model_without_chat_template_is_asked_in_plain_text(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(NATIVE, monkeypatch)
    folder = shutil.copytree(model, tmp_path / "bare")
    (folder / "chat_template.jinja").unlink()
    monkeypatch.setattr(Adding, "tools", ())  # a tool call has no form without a template
    (notice,) = planned(str(folder), None).notices
    assert notice.startswith(f"{folder} has no chat template, so its prompts are plain text")
