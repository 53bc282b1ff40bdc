"""An engine in numbers."""

from __future__ import annotations

import math

import pytest
from numbered_engine import QUESTIONS, engine, number_of, several

from evoprompt.types import (
    Trajectory,
)


def test_they_are_finite_numbers_about_the_population() -> None:
    one = engine(*several(2), weights="window")
    one.tell([Trajectory(a, float(number_of(a))) for a in one.ask(QUESTIONS * 2, 1)])
    found = one.metrics()
    assert found["population_size"] == 2.0
    assert found["best_weight"] == 1.0
    assert found["mean_weight"] == 0.5
    assert found["best_instruction_words"] == 5.0
    assert (found["training_rollouts"], found["verification_rollouts"]) == (16.0, 0.0)
    assert found["candidates_born"] == 2.0
    chance = 1 / (1 + math.exp(-1 / 0.2))
    entropy = -(chance * math.log(chance) + (1 - chance) * math.log(1 - chance))
    assert found["selection_entropy"] == pytest.approx(entropy)
