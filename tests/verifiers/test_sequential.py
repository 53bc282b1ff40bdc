"""The test that may look several times: its bounds by brute force, its errors by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoprompt.verifiers import (
    Difference,
    difference,
    is_positive,
    prospect,
    score,
    spent,
)

Draw = Callable[[random.Random], Difference]


def plain(lead: float) -> Difference:
    """Of one reward each: had they been exchanged, the lead would be the opposite."""
    return (lead, -lead)


def in_looks(differences: Sequence[Difference], looks: int) -> list[list[Difference]]:
    ends = [math.ceil(len(differences) * part / looks) for part in range(looks + 1)]
    return [list(differences[start:end]) for start, end in pairwise(ends)]


def share_shown(draw: Draw, count: int, error: float, repeats: int, looks: int = 5) -> float:
    rng = random.Random(count)
    shown = 0
    for _ in range(repeats):
        parts = in_looks([draw(rng) for _ in range(count)], looks)
        shown += is_positive(parts, count, error)
    return shown / repeats


def trinomial(better: float, worse: float) -> Draw:
    """Differences of rewards of 0 and 1."""

    def draw(rng: random.Random) -> Difference:
        place = rng.random()
        return plain(1.0 if place < better else -1.0 if place < better + worse else 0.0)

    return draw


class TestTheErrorRate:
    @pytest.mark.parametrize(("count", "repeats"), [(8, 2000), (40, 2000), (200, 1000)])
    @pytest.mark.parametrize("error", [0.05, 0.2])
    def test_is_kept_at_any_number_of_questions(
        self, count: int, repeats: int, error: float
    ) -> None:
        found = share_shown(trinomial(0.2, 0.2), count, error, repeats)
        assert found <= error + 3 * math.sqrt(error * (1 - error) / repeats)

    def test_is_hardly_spent_early(self) -> None:
        shares = [spent(0.05, share / 5) for share in range(1, 6)]
        assert shares == sorted(shares)
        assert shares[0] < 1e-4
        assert shares[-1] == 0.05
        assert shares[1] == pytest.approx(0.001945, abs=1e-5)  # 2 - 2 Phi(1.96 / sqrt(.4))

    @settings(max_examples=40)
    @given(
        rewards=st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=4),
            min_size=1,
            max_size=5,
        ),
        error=st.sampled_from([0.05, 0.3, 0.7]),
    )
    def test_is_exact_over_all_exchanges(self, rewards: list[list[float]], error: float) -> None:
        shown = [
            is_positive(
                in_looks(
                    [
                        difference(one[own], one[:own] + one[own + 1 :])
                        for own, one in zip(owns, rewards, strict=True)
                    ],
                    2,
                ),
                len(rewards),
                error,
            )
            for owns in product(*(range(len(one)) for one in rewards))
        ]
        assert sum(shown) / len(shown) <= error + 1e-12


class TestItsPower:
    def test_is_near_that_of_one_look_at_the_end(self) -> None:
        better, worse, count = 0.26, 0.14, 200
        found = share_shown(trinomial(better, worse), count, 0.05, 1500)
        mean, variance = better - worse, better + worse - (better - worse) ** 2
        one_look = NormalDist().cdf(mean * math.sqrt(count / variance) - 1.645)
        assert found > one_look - 0.06


class TestEdges:
    @pytest.mark.parametrize("size", [1e-300, 1e-9, 1e100])
    def test_the_size_of_rewards_does_not_matter(self, size: float) -> None:
        leads = [1.0, 0.5, -0.25, 1.0, 1.0, 0.75, 0.5, 1.0]
        pattern = [plain(one) for one in leads]
        scaled = [plain(size * one) for one in leads]
        assert score(scaled) == pytest.approx(score(pattern))
        for error in (0.01, 0.05, 0.2):
            assert is_positive([scaled], 8, error) == is_positive([pattern], 8, error)


class TestTheProspect:
    def test_agrees_with_a_simulation_of_what_is_to_come(self) -> None:
        differences = [plain(1.0)] * 14 + [plain(-1.0)] * 8 + [plain(0.0)] * 18
        rng, planned, error, repeats = random.Random(1), 100, 0.05, 4000
        # What the truth may be, given what was seen: its mean is the one seen, with its error.
        mean, deviation = 6 / 40, math.sqrt(22 / 40)
        reached = 0
        for _ in range(repeats):
            truth = rng.gauss(mean, deviation / math.sqrt(40))
            rest = rng.gauss(60 * truth, deviation * math.sqrt(60))
            wanted = NormalDist().inv_cdf(1 - error) * deviation * math.sqrt(planned)
            reached += 6 + rest > wanted
        assert prospect(differences, planned, error) == pytest.approx(reached / repeats, abs=0.03)
