"""veRL's own trainer survives a kill at any file of a save, and a full disk."""

from __future__ import annotations

import pytest
from kill_contract import KillContract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


class TestVerl(KillContract):
    module = "verl_kills"
    first = {"steps": 2}  # noqa: RUF012
    paths = ("tests/integration/verl",)


class TestVerlThatKeepsTwo(TestVerl):
    first = {"steps": 2, "keep": 2}  # noqa: RUF012
    rest = {"keep": 2}  # noqa: RUF012
