"""The engine alone, and a whole run, survive a kill at any file, and a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults import Forks
from kill_contract import KillContract

pytestmark = pytest.mark.slow


class TestEngine(KillContract):
    module = "engine_kills"
    first = {"steps": 2}  # noqa: RUF012

    def test_where_no_file_can_grow_beyond_a_limit(
        self,
        forks: Forks,
        begun: Path,
        whole: Path,
        tmp_path: Path,
        request: pytest.FixtureRequest,
    ) -> None:
        self.check_full_disk(forks, begun, whole, tmp_path, request, mount=False)


class TestRun(KillContract):
    module = "run_kills"
    paths = ("tests/fakes",)
    first = {}  # noqa: RUF012
