"""Who is used, who stays and who breeds, by the weights of the members."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.attributors import WindowMean
from evoprompt.config import EngineConfig
from evoprompt.log.eventlog import EventLog
from evoprompt.populations import SteadyPopulation
from evoprompt.roles import Selector
from evoprompt.selection import MAX_HISTORY, Selection
from evoprompt.selectors import Deap, Softmax
from evoprompt.support.errors import ComponentError
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import CandidateStats, Trajectory

Known = Sequence[tuple[float, int]]
"""Reward and number of scored groups of c0, c1, ..."""


class Fixed(Selector):
    """Chooses the same candidates again and again."""

    def __init__(self, *places: int) -> None:
        self.places = places

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        return [candidate_stats[place] for place in self.places]


def ranking(
    known: Known,
    sampler: Selector | None = None,
    attributor: WindowMean | None = None,
    **numbers: Any,
) -> Selection:
    """A ranking of c0, c1, ..., each with as many groups of one reward as given."""
    config = EngineConfig(**{"population_size": 40, **numbers})
    population, attributor = SteadyPopulation(), attributor or WindowMean()
    for number, (reward, groups) in enumerate(known):
        told = [trajectory(candidate(number), question(n), reward) for n in range(groups)]
        attributor.observe(1, told)
    selection = Selection(
        config,
        population,
        attributor,
        sampler or Softmax(config.temperature),
        Deap("best"),
        Deap("best"),
        random.Random(0),
        EventLog(),
    )
    for number in range(len(known)):
        selection.add(candidate(number))
    return selection


def alive(one: Selection) -> list[str]:
    return [members.id for members in one.population.members]


measured = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 4)), min_size=1
)


class TestLeader:
    @pytest.mark.parametrize(
        ("known", "numbers", "expected"),
        [
            ([(0.5, 3), (0.9, 3), (0.9, 3)], {}, "c1"),
            ([(0.9, 1), (0.1, 3)], {}, "c1"),
            ([(0.9, 1), (0.1, 3)], {"min_groups": 1}, "c0"),
            ([(0.0, 0), (-0.5, 3)], {"preset": "inspo"}, "c0"),
        ],
    )
    def test_is_the_heaviest_measured_one_and_the_oldest_on_a_tie(
        self, known: Known, numbers: dict[str, Any], expected: str
    ) -> None:
        assert ranking(known, **numbers).leader.id == expected


class TestDraw:
    def test_different_candidates_for_each_question(self) -> None:
        one = ranking([(0.5, 3)] * 4, candidates_per_question=3)
        drawn = [candidate_.id for candidate_ in one.draw(one.candidate_stats(), 20)]
        groups = [drawn[start : start + 3] for start in range(0, 60, 3)]
        assert all(len(set(group)) == 3 for group in groups)
        assert len(set(map(tuple, groups))) > 5

    def test_more_than_there_are_come_round_again(self) -> None:
        one = ranking([(0.5, 3), (0.0, 3)], candidates_per_question=5, temperature=0.01)
        drawn = [candidate_.id for candidate_ in one.draw(one.candidate_stats(), 1)]
        assert drawn == ["c0", "c1", "c0", "c1", "c0"]

    def test_the_unmeasured_come_first_until_they_are_measured(self) -> None:
        one = ranking([(5.0, 2), (0.0, 0), (9.0, 1), (0.0, 0)], min_groups=2)
        drawn = [found.id for found in one.draw(one.candidate_stats(), 8)]
        assert sorted(drawn[:2]) == ["c1", "c3"]
        assert sorted(drawn[2:5]) == ["c1", "c2", "c3"]

    def test_nobody_comes_first_in_the_paper_s_preset(self) -> None:
        one = ranking([(5.0, 3), (0.0, 0)], preset="inspo")
        assert [found.id for found in one.draw(one.candidate_stats(), 3)] == ["c0"] * 3

    @pytest.mark.parametrize("places", [(), (0,), (0, 1, 1)])
    def test_a_sampler_that_miscounts_is_named(self, places: tuple[int, ...]) -> None:
        one = ranking([(0.5, 3)] * 2, sampler=Fixed(*places))
        with pytest.raises(ComponentError, match=rf"Fixed of .* chose {len(places)} cand"):
            one.draw(one.candidate_stats(), 2)

    def test_chances_are_the_sampler_s_if_it_knows_them(self) -> None:
        one = ranking([(0.5, 3)] * 4)
        assert one.chances(one.candidate_stats()) == [0.25] * 4
        other = ranking([(0.5, 3)] * 4, sampler=Fixed(0))
        assert other.chances(other.candidate_stats()) == ()


class TestParents:
    def test_are_measured_if_enough_are(self) -> None:
        known = [(0.0, 0), (0.5, 3), (0.0, 0)]
        one = ranking(known)
        assert [s.candidate.id for s in one.parents(one.candidate_stats())] == ["c1"]
        two = ranking(known, parents=2)
        assert len(two.parents(two.candidate_stats())) == 2


class TestHalve:
    def test_many_that_are_unmeasured_do_not_cost_the_measured_their_places(self) -> None:
        """They did while they counted: of 20 measured among 300, 19 were dropped at once."""
        one = ranking([*[(number / 20, 2) for number in range(20)], *[(0.0, 0)] * 280])
        assert one.halve(1) == tuple(f"c{number}" for number in range(10))
        assert one.incumbent.id == "c19"

    @given(
        known=measured,
        parents=st.integers(1, 5),
        preset=st.sampled_from(["default", "inspo"]),
    )
    def test_keeps_the_better_half_and_at_least_n_parent(
        self, known: Known, parents: int, preset: str
    ) -> None:
        one = ranking(known, parents=parents, preset=preset)
        before, best = one.candidate_stats(), one.leader
        unmeasured = one.unmeasured(before)
        dropped = one.halve(1)
        assert best.id in alive(one)
        assert unmeasured <= set(alive(one))
        assert sorted([*dropped, *alive(one)]) == sorted(f"c{n}" for n in range(len(known)))
        others = [s for s in before if s.candidate.id not in unmeasured]
        keep = max(math.ceil(len(others) / 2), parents - len(unmeasured), 1)
        stay = [s for s in others if s.candidate.id not in dropped]
        assert len(stay) == min(keep, len(others))
        lost = [s.weight for s in others if s.candidate.id in dropped]
        assert not lost or max(lost) <= min(s.weight for s in stay)
        assert all(one.attributor.stats(candidate(int(name[1:]))).groups == 0 for name in dropped)


class TestAdmit:
    def weighed(
        self,
        attributor: WindowMean | None = None,
        **numbers: Any,
    ) -> list[CandidateStats]:
        known = [(0.25, 4), (0.75, 4), (0.75, 1), (0.0, 0)]
        one = ranking(known, attributor=attributor, **numbers)
        assert one.keep_only(1, {"c0", "c1", "c2"}) == ("c3",)
        rewards: dict[str, list[float | None]] = {
            "c0": [0.0, 1.0],
            "c7": [1.0, 0.0, 0.5, 1.0],
            "c8": [0.5, 0.5, None],
            "c9": [1.0],
        }
        answers = [
            trajectory(candidate(int(name[1:])), question(100 + number), reward)
            for name, given in rewards.items()
            for number, reward in enumerate(given)
        ]
        for number in (7, 8):
            one.add(candidate(number))
        one.credit_verification(4, answers)
        assert alive(one) == ["c0", "c1", "c2", "c7", "c8"]
        return [one.attributor.stats(members) for members in one.population.members]

    def test_all_weights_are_0_in_the_paper_s_preset(self) -> None:
        assert {(s.weight, s.groups) for s in self.weighed(preset="inspo")} == {(0.0, 0)}

    def test_by_default_they_are_the_verified_means(self) -> None:
        found = {s.candidate.id: (s.weight, s.groups) for s in self.weighed()}
        assert found["c0"] == (0.5, 2)
        assert found["c7"] == (0.625, 4)
        assert found["c8"] == (0.5, 2)

    def test_an_attributor_that_can_compare_forgets_nothing(self) -> None:
        class Continuing(WindowMean):
            def observe_verification(
                self,
                step: int,
                told: Sequence[Trajectory],
                priors: Mapping[str, Sequence[float]],
            ) -> None:
                self.observe(step, told)

        found = {
            s.candidate.id: (s.weight, s.groups) for s in self.weighed(attributor=Continuing())
        }
        assert found["c0"] == (0.375, 6)  # the mean of the two steps' means
        assert found["c1"] == (0.75, 4)
        assert found["c2"] == (0.75, 1)
        assert found["c7"] == (0.625, 4)
        assert found["c8"] == (0.5, 2)
        zero = self.weighed(attributor=Continuing(), preset="inspo")
        assert {(s.weight, s.groups) for s in zero} == {(0.0, 0)}

    def test_who_was_not_verified_keeps_its_weight_and_stays_as_measured_as_it_was(self) -> None:
        found = {s.candidate.id: (s.weight, s.groups) for s in self.weighed()}
        assert found["c1"] == (0.75, 2)
        assert found["c2"] == (0.75, 1)


class TestHistory:
    def test_holds_the_last_weight_of_the_measured_in_order(self) -> None:
        one = ranking([(0.125, 3), (0.2, 0), (0.3, 1), (0.5, 3)])
        one.remember(1, one.candidate_stats())
        one.remember(2, [CandidateStats(candidate(0), 0.9, groups=3)])
        assert [(s.candidate.id, s.weight, s.step) for s in one.history] == [
            ("c3", 0.5, 1),
            ("c0", 0.9, 2),
        ]


class TestShares:
    @pytest.mark.parametrize(("trials", "places"), [(1, 1), (2, 2)])
    def test_places_for_trials_are_rounded_down(self, trials: int, places: int) -> None:
        selection = ranking([(0.5, 3)], candidates_per_question=4)
        candidates = [candidate(10 + number) for number in range(trials)]
        drawn = selection.draw(selection.candidate_stats(), 6, candidates, share=0.6)
        blocks = [drawn[start : start + 4] for start in range(0, 24, 4)]
        assert [sum(member in candidates for member in block) for block in blocks] == [places] * 6

    def test_the_place_beside_the_trials_is_the_incumbents_and_not_the_leaders(self) -> None:
        selection = ranking([(0.5, 3), (0.9, 3)], sampler=Fixed(1), candidates_per_question=5)
        assert (selection.incumbent.id, selection.leader.id) == ("c0", "c1")
        trials = [candidate(10), candidate(11)]
        drawn = selection.draw(selection.candidate_stats(), 1, trials, share=0.6)
        assert [member.id for member in drawn] == ["c10", "c11", "c10", "c0", "c1"]

    def test_the_unmeasured_have_the_average_weight(self) -> None:
        selection = ranking([(0.2, 3), (0.8, 3), (0.0, 0)])
        assert selection.candidate_stats()[2].weight == pytest.approx(0.5)


class TestRoom:
    def test_a_measured_member_makes_room_before_an_unmeasured_one(self) -> None:
        selection = ranking([(0.1, 3), (0.9, 3), (0.0, 0)], population_size=2)
        selection.make_room(1)
        assert alive(selection) == ["c0", "c2"]

    def test_pinned_members_stay_whatever_is_to_be_kept(self) -> None:
        selection = ranking([(0.5, 3)] * 3)
        selection.pinned = {"c1"}
        assert selection.keep_only(1, ["c0"]) == ("c2",)
        assert alive(selection) == ["c0", "c1"]

    def test_the_oldest_leave_the_history(self) -> None:
        selection = ranking([(0.5, 3)] * (MAX_HISTORY + 3), population_size=300)
        selection.remember(1, selection.candidate_stats())
        ids = [stats.candidate.id for stats in selection.history]
        assert ids == [f"c{number}" for number in range(3, MAX_HISTORY + 3)]
