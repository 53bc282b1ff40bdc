"""The examples in docstrings run."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import evoprompt

PACKAGE = Path(evoprompt.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
NEEDS = {"evoprompt.agents.endpoint"}
"""Those that need an extra."""


def failing(modules: list[str]) -> set[str]:
    found = {name: doctest.testmod(import_module(name)) for name in modules}
    return {name for name, one in found.items() if one.failed or not one.attempted}


def test_examples_show_what_happens() -> None:
    assert len(MODULES) > 20
    assert failing([name for name in MODULES if name not in NEEDS]) == set()


@pytest.mark.endpoint
def test_examples_that_need_an_extra_do_too() -> None:
    assert failing([name for name in MODULES if name in NEEDS]) == set()
