"""Thompson sampling draws as often as a candidate may be the best."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from evoprompt.roles import Selector
from evoprompt.selectors import Thompson, TopTwo
from evoprompt.testing.samples import candidate
from evoprompt.types import CandidateStats


def known(*pairs: tuple[float, float]) -> list[CandidateStats]:
    """Candidates of the given weights and standard errors."""
    return [
        CandidateStats(candidate(index), weight, stderr, groups=4)
        for index, (weight, stderr) in enumerate(pairs)
    ]


def shares(selector: Selector, given: Sequence[CandidateStats], draws: int = 20_000) -> list[float]:
    drawn = Counter(stats.candidate.id for stats in selector.select(given, draws, random.Random(0)))
    return [drawn[stats.candidate.id] / draws for stats in given]


class TestThompson:
    @pytest.mark.parametrize("stderr", [0.01, 0.1, 1.0])
    def test_draws_as_often_as_one_is_better(self, stderr: float) -> None:
        gap = 0.1
        better = 0.5 * (1 + math.erf(gap / (stderr * math.sqrt(2)) / math.sqrt(2)))
        found = shares(Thompson(), known((0.5, stderr), (0.5 + gap, stderr)))
        assert found[1] == pytest.approx(better, abs=0.015)

    def test_who_is_hardly_known_is_drawn_more_often(self) -> None:
        found = shares(Thompson(), known((0.6, 0.02), (0.5, 0.02), (0.5, 0.2)))
        assert found[2] > 0.25 > 0.01 > found[1]

    def test_the_unmeasured_are_as_the_least_known(self) -> None:
        found = shares(Thompson(), known((0.5, 0.1), (0.5, 0.02), (0.5, math.inf)))
        assert found[2] == pytest.approx(found[0], abs=0.02)


class TestTopTwo:
    def test_the_challenger_gets_its_share(self) -> None:
        """With certainty about the weights it is exactly the second best."""
        found = shares(TopTwo(0.3), known((0.2, 0.0), (0.9, 0.0), (0.5, 0.0)))
        assert found == pytest.approx([0.0, 0.7, 0.3], abs=0.02)

    @pytest.mark.parametrize("challenger", [-0.1, 1.1, math.nan])
    def test_refuses_what_is_no_chance(self, challenger: float) -> None:
        with pytest.raises(ValueError, match="required: a chance, 0 to 1"):
            TopTwo(challenger)
