"""veRL's own trainer survives a kill at any file of a save, and a full disk."""

from __future__ import annotations

import pytest
from kill_contract import KillContract

pytestmark = [pytest.mark.slow, pytest.mark.verl, pytest.mark.nightly]


class TestVerl(KillContract):
    module = "verl_kills"
    first = {"steps": 2}  # noqa: RUF012
    paths = ("tests/integration/verl",)


class TestVerlThatKeepsTwo(TestVerl):
    first = {"steps": 2, "keep": 2}  # noqa: RUF012
    rest = {"keep": 2}  # noqa: RUF012

    # The same as above: up to the first checkpoint nothing is removed.
    test_killed_at_every_file_up_to_the_first_checkpoint = None  # type: ignore[assignment]
    test_on_a_disk_that_is_full_at_any_moment = None  # type: ignore[assignment]
