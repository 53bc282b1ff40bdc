"""Fixtures that several test packages share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from evoprompt.plugins import plugins

FAKES = Path(__file__).parent / "fakes"


@pytest.fixture
def fake_task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs the distribution ``evoprompt-fake``, here and in processes started from here."""
    monkeypatch.syspath_prepend(FAKES)
    path = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{FAKES}{os.pathsep}{path}" if path else str(FAKES))
    plugins.cache_clear()
    yield
    plugins.cache_clear()
