"""A gateway survives a kill at any file, and a full disk: nothing that was counted is lost."""

from __future__ import annotations

import pytest
from kill_contract import KillContract

pytestmark = pytest.mark.slow


class TestGateway(KillContract):
    module = "gateway_kills"
    first = {"steps": 2}  # noqa: RUF012
