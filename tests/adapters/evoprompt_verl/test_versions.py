"""Packages that do not work together are named before veRL is imported."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata

import pytest
from evoprompt_verl.versions import check_versions, findings
from packaging.version import Version

from evoprompt.errors import InputError
from evoprompt.experiments.cli.doctor import conflicts


def with_versions(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(distribution: str) -> str:
        if distribution not in versions:
            raise metadata.PackageNotFoundError(distribution)
        return versions[distribution]

    monkeypatch.setattr(metadata, "version", version)


@pytest.mark.parametrize(
    ("versions", "finding"),
    [
        ({}, "veRL is not installed"),
        ({"verl": "0.8.2"}, "veRL 0.8.2 is too old; required: verl>=0.9.0"),
        ({"verl": "0.9.1", "trl": "1.12.0"}, "TRL 1.12.0 is installed beside veRL 0.9.1"),
        ({"verl": "0.9.0", "trl": "2.0"}, 'pip install "trl<=1.11.0"'),
    ],
)
def test_packages_that_do_not_are_named(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], finding: str
) -> None:
    with_versions(monkeypatch, **versions)
    with pytest.raises(InputError, match=re.escape(finding)):
        check_versions()


def test_what_was_not_tested_is_warned_of_and_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with_versions(monkeypatch, verl="0.9.1", trl="1.11.9")
    check_versions()
    with_versions(monkeypatch, verl="0.10.0")
    with pytest.warns(UserWarning, match=r"veRL 0\.10\.0 is newer than 0\.9\.1"):
        check_versions()


@pytest.mark.parametrize(
    ("verl", "trl"), [("0.8.2", None), ("0.9.1", "1.12.0"), ("0.10.0", "1.11.9")]
)
def test_the_doctor_says_the_same(verl: str, trl: str | None) -> None:
    versions = {"verl": Version(verl), **({"trl": Version(trl)} if trl else {})}
    said = [one for one in conflicts(versions) if one.subject in ("verl", "trl + verl")]
    assert said
    assert [(one.level == "problem", one.text) for one in said] == [
        (one.fatal, one.text) for one in findings(verl, trl)
    ]


def test_the_launcher_says_that_verl_is_missing_where_nothing_of_it_is_installed() -> None:
    code = (
        "import sys\n"
        "from importlib import metadata\n"
        "def absent(name): raise metadata.PackageNotFoundError(name)\n"
        "metadata.version = absent\n"
        "for name in ('verl', 'ray', 'torch', 'hydra', 'omegaconf', 'tensordict'):\n"
        "    sys.modules[name] = None\n"
        "from evoprompt_verl import launcher\n"
        "launcher.main(['trainer.nnodes=2'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("evoprompt: veRL is not installed; required: pip install")
    assert done.stderr.count("\n") == 1
