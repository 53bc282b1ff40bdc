"""The examples in docstrings run, beyond the core too: adapters, plugins and examples."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOMES = [ROOT / "adapters", *sorted(ROOT.glob("plugins/*")), *sorted(ROOT.glob("examples/*"))]
"""Folders whose packages are installed."""


def modules() -> Iterator[str]:
    for home in HOMES:
        for path in sorted(home.glob("evoprompt*/**/*.py")):
            if ">>> " in path.read_text(encoding="utf-8"):
                yield ".".join(path.relative_to(home).with_suffix("").parts)


@pytest.mark.parametrize("module", list(modules()))
def test_examples_show_what_happens(module: str) -> None:
    found = doctest.testmod(import_module(module))
    assert found.attempted > 0
    assert found.failed == 0
