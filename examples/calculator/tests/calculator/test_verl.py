"""The calculator under a real veRL on a CPU: Ray, FSDP, agent loops."""

from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_tiny.testing import strata_after_a_smoke_under_verl

pytestmark = [pytest.mark.verl, pytest.mark.nightly]

RECIPE = Path(__file__).parents[2] / "tiny.yaml"


def test_the_recipe_trains_under_verl(tmp_path: Path) -> None:
    found = strata_after_a_smoke_under_verl(RECIPE, tmp_path / "run")
    assert found == {"one step", "two steps", "three steps"}
