"""The engine's time in a step, beside that of writing the same rollouts as JSON."""

from __future__ import annotations

from benchmarks.engine_overhead import Scale, measure

SMALL = Scale("small", 7, 64, 5, 320, 60.0)


def test_a_step_takes_some_ten_times_as_long_as_writing_its_rollouts() -> None:
    """Both are CPU time of one process; 8 to 14 times were measured."""
    cost = measure(SMALL, 12)
    assert cost.ask + cost.tell < 30 * cost.baseline
