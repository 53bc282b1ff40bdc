"""The examples in docstrings run, beyond the core too: adapters, plugins and examples."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOMES = [ROOT / "adapters", *sorted(ROOT.glob("plugins/*")), *sorted(ROOT.glob("examples/*"))]
"""Folders whose packages are installed."""


def modules() -> Iterator[str]:
    for home in HOMES:
        for path in sorted(home.glob("evoprompt*/**/*.py")):
            if ">>> " in path.read_text(encoding="utf-8"):
                yield ".".join(path.relative_to(home).with_suffix("").parts)


def test_examples_show_what_happens() -> None:
    found = {name: doctest.testmod(import_module(name)) for name in modules()}
    assert len(found) > 10
    assert {name for name, one in found.items() if one.failed or not one.attempted} == set()
