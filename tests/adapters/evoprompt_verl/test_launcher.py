"""``evoprompt-verl`` is veRL's command line with co-evolution on."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from typing import Any

import pytest
from evoprompt_verl import launcher, versions
from evoprompt_verl.versions import check_versions

from evoprompt.support.errors import InputError


@pytest.fixture
def verl_main(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What veRL's main function was called with, instead of calling it."""
    from verl.trainer import main_ppo

    called: list[Any] = []
    monkeypatch.setattr(main_ppo, "main", lambda: called.append(list(sys.argv)))
    monkeypatch.setattr(sys, "argv", ["evoprompt-verl"])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    return called


def test_adds_a_preset_where_none_is_chosen(verl_main: list[Any]) -> None:
    launcher.main(["trainer.nnodes=2"])
    launcher.main(["+evoprompt=inspo"])
    assert verl_main == [
        ["evoprompt-verl", "trainer.nnodes=2", "+evoprompt=default"],
        ["evoprompt-verl", "+evoprompt=inspo"],
    ]


def test_packages_that_do_not_work_together_are_refused_before_verl_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def conflict() -> None:
        raise InputError("TRL 1.16.0 is installed beside veRL 0.9.1")

    monkeypatch.setattr(versions, "check_versions", conflict)
    with pytest.raises(SystemExit, match=r"^2$"):
        launcher.main(["trainer.nnodes=2"])
    assert capsys.readouterr().err == "evoprompt: TRL 1.16.0 is installed beside veRL 0.9.1\n"


def test_what_hydra_finds_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, verl_main: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from hydra.errors import ConfigCompositionException
    from verl.trainer import main_ppo

    def compose() -> None:
        raise ConfigCompositionException("Could not override 'trainer.foo'.\nTo append use +")

    monkeypatch.setattr(main_ppo, "main", compose)
    with pytest.raises(SystemExit, match=r"^2$"):
        launcher.main(["trainer.foo=1"])
    assert capsys.readouterr().err == (
        "evoprompt: Could not override 'trainer.foo'. To append use +\n"
    )


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
        ({"verl": "0.8.2"}, "verl 0.8.2 is too old; required: verl>=0.9.0"),
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
    with pytest.warns(UserWarning, match=r"verl 0\.10\.0 is newer than 0\.9\.1"):
        check_versions()
