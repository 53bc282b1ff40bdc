"""Pictures are those of their numbers; the README's are of a run with today's settings."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_picture_is_of_today() -> None:
    made = runpy.run_path(str(ROOT / ".ci/picture.py"))
    numbers = json.loads(made["NUMBERS"].read_text(encoding="utf-8"))
    assert numbers["settings"] == made["settings"](made["EXAMPLE"]), "run the example again, then"
    picture = made["NUMBERS"].with_suffix(".svg").read_text(encoding="utf-8")
    assert picture == made["draw"](numbers), "python .ci/picture.py runs/tiny"


@pytest.mark.parametrize("name", ["words-and-weights", "dose"])
def test_a_picture_of_results_is_that_of_the_answers(name: str) -> None:
    made = runpy.run_path(str(ROOT / ".ci/words_and_weights.py"))
    picture = (made["IMAGES"] / f"{name}.svg").read_text(encoding="utf-8")
    assert picture == made["draw"](name), "python .ci/words_and_weights.py"


def test_the_picture_of_the_handover_is_that_of_its_numbers() -> None:
    made = runpy.run_path(str(ROOT / ".ci/handover.py"))
    numbers = json.loads(made["NUMBERS"].read_text(encoding="utf-8"))
    picture = made["NUMBERS"].with_suffix(".svg").read_text(encoding="utf-8")
    assert picture == made["draw"](numbers), "python .ci/handover.py"
