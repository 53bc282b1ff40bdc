"""The examples in docstrings run."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import evoprompt

PACKAGE = Path(evoprompt.__file__).parent
NEEDS = {"evoprompt.agents.endpoint": pytest.mark.endpoint}
MODULES = [
    pytest.param(name, marks=NEEDS.get(name, ()))
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
    and (name := ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_show_what_happens(module: str) -> None:
    found = doctest.testmod(import_module(module))
    assert found.attempted > 0
    assert found.failed == 0
