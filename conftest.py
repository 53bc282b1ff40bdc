"""Which tests belong to ``pytest -m quick``: those that a core install runs, in under a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

BEYOND_THE_CORE = ("adapters", "examples", "integration", "plugins", "report", "test_readme.py")
"""Folders and files whose imports need an extra; not even collected for the quick loop."""

GROUPS = {"data", "exact", "gpu", "lm", "report", "slow", "verl"}
"""Markers of tests that need an extra, data or patience."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.option.markexpr != "quick":
        return None
    parts = collection_path.relative_to(config.rootpath).parts
    return True if any(part in BEYOND_THE_CORE for part in parts) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not any(mark.name in GROUPS for mark in item.iter_markers()):
            item.add_marker(pytest.mark.quick)
