"""The engine alone, and a whole run, survive a kill at any file, and a full disk."""

from __future__ import annotations

import pytest
from kill_contract import KillContract

pytestmark = pytest.mark.slow


class TestEngine(KillContract):
    module = "engine_kills"
    first = {"steps": 2}  # noqa: RUF012


class TestRun(KillContract):
    module = "run_kills"
    paths = ("tests/fakes",)
    first = {}  # noqa: RUF012
