"""The scripted writer of ``benchmarks/frozen_dspy.py`` drives an optimizer of DSPy."""

from __future__ import annotations

import pytest

from benchmarks.frozen_dspy import by_dspy, make_copro, run
from benchmarks.frozen_worlds import Pipeline

pytestmark = pytest.mark.lm


@pytest.mark.filterwarnings("ignore")  # DSPy's own
def test_copro_improves_both_stages_with_texts_of_the_scripted_writer() -> None:
    problem = Pipeline(2200)
    value, calls = by_dspy(make_copro, problem, 2200)
    assert value > problem.truth(problem.seed_texts)
    assert calls == 30  # two stages, seven texts first and then eight
    assert problem.rollouts == 1920
    assert run("dspy.COPRO", 2200, budget=2000) == (value, 1920, calls)
