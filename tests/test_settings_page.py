"""The page of all settings is that of today's models."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_page_of_settings_is_made_from_the_models() -> None:
    made = runpy.run_path(str(ROOT / ".ci/settings.py"))["page"]()
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert page == made, "python .ci/settings.py docs/settings.md"
