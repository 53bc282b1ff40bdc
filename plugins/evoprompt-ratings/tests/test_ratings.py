"""Ratings are TrueSkill's for two, close to them for three, and inherited as E-SPL has it."""

from __future__ import annotations

import json
import math
from statistics import NormalDist

import pytest
from evoprompt_ratings import Rating

from evoprompt.roles import Attributor
from evoprompt.testing import AttributorSuite
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import Candidate

NORMAL = NormalDist()
BETA, DYNAMICS = 25 / 6, 25 / 300
MARGIN = NORMAL.inv_cdf(0.55) * math.sqrt(2) * BETA  # a tenth of the games of equals are drawn

Skill = tuple[float, float]


class TestConformance(AttributorSuite):
    def build(self) -> Attributor:
        return Rating()


def game(rating: Rating, step: int, *results: tuple[Candidate, float]) -> None:
    """Each candidate is asked two questions and earns the same on both."""
    told = [trajectory(who, question(number), mean) for who, mean in results for number in (1, 2)]
    rating.observe(step, told)


def rated(rating: Rating, who: Candidate) -> Skill:
    stats = rating.stats(who)
    return stats.weight, stats.stderr


def two_players(winner: Skill, loser: Skill, drawn: bool) -> tuple[Skill, Skill]:
    """TrueSkill's exact means after one game of two (Herbrich, Minka and Graepel, 2006)."""
    (mean, error), (other, doubt) = winner, loser
    variance, uncertain = error**2 + DYNAMICS**2, doubt**2 + DYNAMICS**2
    whole = math.sqrt(variance + uncertain + 2 * BETA**2)
    lead, margin = (mean - other) / whole, MARGIN / whole
    if drawn:
        shift = (NORMAL.pdf(-margin - lead) - NORMAL.pdf(margin - lead)) / (
            NORMAL.cdf(margin - lead) - NORMAL.cdf(-margin - lead)
        )
    else:
        shift = NORMAL.pdf(lead - margin) / NORMAL.cdf(lead - margin)
    return (mean + variance / whole * shift, error), (other - uncertain / whole * shift, doubt)


@pytest.mark.parametrize("rewards", [(1.0, 0.0), (0.5, 0.495), (0.3, 0.3)])
def test_two_are_rated_as_by_trueskill(rewards: tuple[float, float]) -> None:
    rating = Rating()
    known: list[Skill] = [(25.0, 25 / 3)] * 2
    one, other = candidate(0), candidate(1)
    for step in range(1, 6):
        game(rating, step, (one, rewards[0]), (other, rewards[1]))
        wanted = two_players(known[0], known[1], drawn=rewards[0] - rewards[1] <= 0.01)
        known = [rated(rating, one), rated(rating, other)]
        assert [mean for mean, _ in known] == pytest.approx([mean for mean, _ in wanted])
        assert known[0][1] < 25 / 3


def test_a_child_is_known_by_its_parents_and_a_little_less_certain() -> None:
    rating = Rating()
    first, second = candidate(0), candidate(1)
    for step in range(1, 5):
        game(rating, step, (first, 1.0), (second, 0.0))
    (mean, error), (low, doubt) = rated(rating, first), rated(rating, second)
    assert rated(rating, candidate(2, ["c0"])) == pytest.approx((mean, math.hypot(error, 1)))
    precision = 1 / error**2 + 1 / doubt**2
    mixed = rated(rating, candidate(3, ["c0", "c1"]))
    assert mixed[0] == pytest.approx((mean / error**2 + low / doubt**2) / precision)
    assert mixed[1] == pytest.approx(math.sqrt(1 / precision + 1))
    assert rating.stats(candidate(2, ["c0"])).groups == 0
    rating.forget(["c0"])
    assert rated(rating, candidate(2, ["c0"]))[0] == mean
    game(rating, 5, (second, 0.0), (candidate(2, ["c0"]), 1.0))
    assert rated(rating, candidate(2))[0] > mean


def test_a_saved_one_goes_on_with_what_children_inherit() -> None:
    rating, resumed = Rating(), Rating()
    for step in (1, 2):
        game(rating, step, (candidate(0), 0.9), (candidate(1), 0.2))
    rating.forget(["c0"])
    game(rating, 3, (candidate(1), 0.1), (candidate(2, ["c0"]), 0.4))
    resumed.load_state_dict(json.loads(json.dumps(rating.state_dict(), allow_nan=False)))
    for one in (rating, resumed):
        game(one, 4, (candidate(1), 0.6), (candidate(3, ["c0", "c2"]), 0.3))
    assert resumed.state_dict() == rating.state_dict()
