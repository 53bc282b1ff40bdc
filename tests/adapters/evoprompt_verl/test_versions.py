"""Packages that do not work together are named before veRL is imported."""

from __future__ import annotations

import re
from importlib import metadata

import pytest
from evoprompt_verl.versions import check_versions

from evoprompt.errors import InputError


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
