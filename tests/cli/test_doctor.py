from __future__ import annotations

import shutil
import subprocess
from importlib import metadata

import pytest
import torch
from command_line import evoprompt, stdout_of
from packaging.version import Version

from evoprompt.experiments import requirements
from evoprompt.experiments.cli import doctor
from evoprompt.experiments.cli.doctor import DoctorCheck, conflicts, findings

OLD = DoctorCheck("problem", "trl", "0.9, but >=1.0 is required", 'pip install "trl>=1.0"')
FINE = DoctorCheck("ok", "deap", "1.4")


def by_subject(found: list[DoctorCheck]) -> dict[str, DoctorCheck]:
    return {finding.subject: finding for finding in found}


def test_problems_come_first_and_what_is_fine_takes_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [DoctorCheck("ok", "Python", "3.12"), DoctorCheck("note", "GPU", "none"), OLD, FINE]
    monkeypatch.setattr(doctor, "findings", lambda: iter(found))
    first, second, last = stdout_of("doctor", code=1).splitlines()
    assert first == 'problem trl            0.9, but >=1.0 is required -> pip install "trl>=1.0"'
    assert second == "note    GPU            none"
    assert last == "2 fine: Python 3.12, deap 1.4"
    found.remove(OLD)
    assert evoprompt("doctor") == 0


def test_looks_at_everything_a_run_needs() -> None:
    assert {"Python", "pydantic", "deap", "torch", "trl", "GPU"} <= set(by_subject([*findings()]))


@pytest.mark.parametrize(("trl", "problem"), [("1.16.0", True), ("1.11.0", False)])
def test_names_a_trl_that_breaks_verl(trl: str, problem: bool) -> None:
    found = by_subject(list(conflicts({"trl": Version(trl), "verl": Version("0.9.1")})))
    assert ("trl + verl" in found) is problem
    if problem:
        assert 'pip install "trl<=1.11.0"' in found["trl + verl"].remedy


def test_packages_are_there_or_problems_and_those_of_extras_only_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = [
        "pydantic>=2.9",
        "deap>=1.4",
        "gone",
        'torch>=2.6; extra == "trl"',
        'torch>=2.6; extra == "verl"',
        'evoprompt[trl]; extra == "trl-vllm"',
        'trl[vllm]; extra == "trl-vllm"',
        'pytest; extra == "test"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: wanted)
    # A development version, as a clone has it, is no problem.
    versions = {"pydantic": Version("1.10"), "deap": Version("1.5.0.dev4")}
    found = list(doctor.packages(versions))
    assert [(one.subject, one.level) for one in found] == [
        ("pydantic", "problem"),
        ("deap", "ok"),
        ("gone", "problem"),
        ("torch", "note"),
    ]
    assert found[0].remedy == 'pip install "pydantic>=2.9"'
    assert found[3].remedy == 'pip install -e ".[trl]"'


@pytest.mark.parametrize(
    ("listed", "cuda", "available", "level", "told"),
    [
        ("", None, False, "note", "none found"),
        ("580.65.06", None, False, "problem", "cannot use it"),
        ("580.65.06", "13.0", True, "ok", "H200"),
        ("570.86.15", "13.0", False, "problem", "driver 570.86.15 is too old for CUDA 13.0"),
        ("570.86.15", "12.8", True, "ok", "H200"),
        ("580.65.06", "13.0", False, "problem", "torch.cuda.is_available() is false"),
    ],
)
def test_a_gpu_is_usable_or_not(
    listed: str,
    cuda: str | None,
    available: bool,
    level: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = f"H200, 143771 MiB, 143000 MiB, {listed}\n" if listed else ""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, stdout=lines)

    monkeypatch.setattr(shutil, "which", lambda name: name if name == "nvidia-smi" else None)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    (found,) = doctor.gpu(verl=False)
    assert found.level == level
    assert told in found.text
    assert bool(found.remedy) == (level == "problem")
    need = requirements.gpus(1, None)  # a dry run asks the same
    if level == "problem":
        assert (need.text, need.remedy) == (found.text, found.remedy)


@pytest.mark.parametrize("nvcc", [None, "/usr/local/bin/nvcc"])
def test_what_verl_reads_with_is_built_by_nvcc(
    nvcc: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "devices", lambda: requirements.Devices(("H200",)))
    monkeypatch.setattr(shutil, "which", lambda name: nvcc)
    assert [one.subject for one in doctor.gpu(verl=False)] == ["GPU"]
    _, found = doctor.gpu(verl=True)
    assert found.level == "note"
    assert ("nvcc, which builds it, is not here" in found.text) == (nvcc is None)
    assert found.remedy.startswith("install the toolkit of CUDA 13, then ") == (nvcc is None)
    assert f"pip install {requirements.FLASH_ATTENTION} --no-build-isolation" in found.remedy
