"""What several seeds have in common."""

from __future__ import annotations

import pytest

from evoprompt.experiments.report.bands import Band, band, interval, smoothed


def test_a_band_is_the_mean_and_range_where_all_have_values() -> None:
    assert band([[(0, 0.0), (10, 1.0)], [(5, 0.0), (10, 0.5)]]) == [Band(10, 0.75, 0.5, 1.0)]
    short = [(0, 0.0), (1, 0.0)]  # it has only begun
    assert [one.x for one in band([[(0, 0.0), (9, 1.0)], short])] == [0, 9]
    assert len(band([[(x, 0.0) for x in range(100)]], most=10)) == 10
    assert band([]) == []


def test_a_running_mean_is_over_five_steps() -> None:
    assert smoothed([(x, float(x)) for x in range(7)])[-1] == (6, 4.0)


def test_an_interval_needs_two_values() -> None:
    assert interval([1.0]) is None
    found = interval([1.0, 2.0, 3.0])
    assert found is not None
    assert (found.low, found.high) == pytest.approx((-0.484, 4.484), abs=1e-3)
