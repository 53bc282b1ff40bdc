"""Softmax draws as Eq. 4 says, for weights and temperatures of any size."""

from __future__ import annotations

import math

import pytest
from hypothesis import strategies as st

from evoprompt.selectors import Softmax
from evoprompt.testing.samples import candidate_stats

finite = st.floats(allow_nan=False, allow_infinity=False)


class TestProbabilities:
    @pytest.mark.parametrize("temperature", [0.05, 0.2, 3.0])
    def test_are_those_of_equation_4(self, temperature: float) -> None:
        weights = [0.1, 0.9, 0.5, -0.3]
        powers = [math.exp(weight / temperature) for weight in weights]
        expected = [power / sum(powers) for power in powers]
        assert Softmax(temperature).probabilities(candidate_stats(weights)) == pytest.approx(
            expected
        )

    @pytest.mark.parametrize(
        ("weights", "temperature", "expected"),
        [
            ([1e300, -1e300], 0.2, [1.0, 0.0]),
            ([1e300, 1e300], 1e-300, [0.5, 0.5]),
            ([0.0, 0.0], 5e-324, [0.5, 0.5]),
            ([0.0, 1.0], 1e300, [0.5, 0.5]),
        ],
    )
    def test_are_stable_at_the_extremes(
        self, weights: list[float], temperature: float, expected: list[float]
    ) -> None:
        assert Softmax(temperature).probabilities(candidate_stats(weights)) == pytest.approx(
            expected
        )


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_an_impossible_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match=f"temperature is {temperature}; required"):
        Softmax(temperature)
