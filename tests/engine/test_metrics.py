"""An engine in numbers."""

from __future__ import annotations

from numbered_engine import QUESTIONS, engine, number_of, several

from evoprompt.types import Trajectory


def test_they_are_about_population_rollouts_and_generations() -> None:
    one = engine(*several(2), weights="window")
    one.tell([Trajectory(a, float(number_of(a))) for a in one.ask(QUESTIONS * 2, 1)])
    found = one.metrics()
    assert (found["population_size"], found["best_weight"]) == (2.0, 1.0)
    assert (found["training_rollouts"], found["verification_rollouts"]) == (16.0, 0.0)
    assert (found["generations"], found["admitted_total"]) == (0.0, 0.0)
