"""What several test packages share: fixtures, and how property tests run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from evoprompt.plugins import plugins

if sys.version_info >= (3, 13):  # on which veRL does not install; everything else does
    collect_ignore = ["adapters/evoprompt_verl", "integration/verl"]

FAKES = Path(__file__).parent / "fakes"

# The same examples in every run, on any machine however slow.
settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None, max_examples=60
)
settings.load_profile("repeatable")


@pytest.fixture
def fake_task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs the distribution ``evoprompt-fake``, here and in processes started from here."""
    monkeypatch.syspath_prepend(FAKES)
    path = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{FAKES}{os.pathsep}{path}" if path else str(FAKES))
    plugins.cache_clear()
    yield
    plugins.cache_clear()
