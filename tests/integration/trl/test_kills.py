"""A training under the real TRL survives a kill at any file, and a full disk."""

from __future__ import annotations

import pytest
from kill_contract import KillContract

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


class TestTrl(KillContract):
    module = "trl_kills"
    first = {"max_steps": 2}  # noqa: RUF012
