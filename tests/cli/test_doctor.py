from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from importlib import metadata

import pytest
from packaging.version import Version

from evoprompt.experiments.cli import doctor, main
from evoprompt.experiments.cli.doctor import Finding, conflicts, findings


def by_subject(found: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in found}


def test_one_line_each_and_exit_code_0_without_problems(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "findings", lambda: iter([Finding("ok", "Python", "3.12")]))
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == "ok      Python         3.12\n"


def test_a_problem_shows_its_remedy_and_gives_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sick = Finding("problem", "trl", "0.9, but >=1.0 is required", 'pip install "trl>=1.0"')
    monkeypatch.setattr(doctor, "findings", lambda: iter([sick]))
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    assert ended.value.code == 1
    assert capsys.readouterr().out.endswith('is required -> pip install "trl>=1.0"\n')


def test_looks_at_everything_a_run_needs() -> None:
    subjects = by_subject(list(findings()))
    expected = {"Python", "pydantic", "deap", "torch", "trl", "plugins", "GPU", "memory", "disk"}
    assert expected <= set(subjects)


@pytest.mark.parametrize(
    ("trl", "verl", "problem"),
    [
        ("1.16.0", "0.9.1", True),
        ("1.11.0", "0.9.1", False),
        ("1.16.0", None, False),
        (None, "0.9.1", False),
    ],
)
def test_names_a_trl_that_breaks_verl(trl: str | None, verl: str | None, problem: bool) -> None:
    given = {"trl": trl, "verl": verl}
    versions = {name: Version(version) for name, version in given.items() if version}
    found = by_subject(list(conflicts(versions)))
    assert ("trl + verl" in found) is problem
    if problem:
        assert 'pip install "trl<=1.11.0"' in found["trl + verl"].remedy


def test_names_a_host_whose_own_requirement_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ["numpy>=2", 'x; extra == "y"'])
    versions = {"trl": Version("1.11.0"), "numpy": Version("1.26.4")}
    (found,) = conflicts(versions)
    assert found.text == "trl 1.11.0 requires numpy>=2, installed is 1.26.4"
    assert found.remedy == 'pip install "numpy>=2"'


@pytest.mark.parametrize(
    ("installed", "level", "words"),
    [
        ({}, "problem", "not installed; >=2.9 is required"),
        ({"pydantic": Version("1.10")}, "problem", "1.10, but >=2.9 is required"),
        ({"pydantic": Version("2.9.1")}, "ok", "2.9.1 (supported: >=2.9)"),
    ],
)
def test_the_core_s_packages_must_be_there(
    installed: dict[str, Version], level: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ["pydantic>=2.9"])
    (found,) = doctor.packages(installed)
    assert (found.level, found.text) == (level, words)


def test_an_extra_s_package_that_is_missing_is_only_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ['trl>=1.0; extra == "trl"'])
    (found,) = doctor.packages({})
    assert found.level == "note"
    assert found.remedy == 'pip install "evoprompt[trl]"'


def test_a_development_version_of_a_clone_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ["ours; extra == 'demo'", "deap>=1.4"])
    versions = {"ours": Version("0.1.0.dev490"), "deap": Version("1.5.0rc1")}
    found = by_subject(list(doctor.packages(versions)))
    assert {name: found[name].level for name in versions} == {"ours": "ok", "deap": "ok"}


def test_a_package_of_several_extras_is_told_once_and_our_own_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = [
        'torch>=2.6; extra == "trl"',
        'torch>=2.6; extra == "verl"',
        'evoprompt[trl]; extra == "trl-vllm"',
        'trl[vllm]; extra == "trl-vllm"',
        'vllm>=0.19; extra == "trl-vllm"',
        'pytest; extra == "test"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: wanted)
    assert [found.subject for found in doctor.packages({})] == ["torch", "vllm"]


def gpu(monkeypatch: pytest.MonkeyPatch, torch: str, answer: Callable[[], str] | None) -> Finding:
    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        assert answer is not None
        return subprocess.CompletedProcess([], 0, stdout=answer())

    monkeypatch.setattr(shutil, "which", lambda name: "nvidia-smi" if answer else None)
    monkeypatch.setattr(subprocess, "run", run)
    return doctor.gpu({"torch": Version(torch)})


def test_a_machine_without_a_gpu_is_fine_for_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu(monkeypatch, "2.13.0+cpu", None).level == "note"


def test_a_torch_that_cannot_use_the_gpu_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gpu(monkeypatch, "2.13.0+cpu", lambda: "H200, 143771 MiB, 143000 MiB\n")
    assert found.level == "problem"
    assert gpu(monkeypatch, "2.13.0", lambda: "H200, 143771 MiB, 143000 MiB\n").level == "ok"
