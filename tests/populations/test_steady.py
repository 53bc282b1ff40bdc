"""A population is never empty, and its lineage never runs in circles."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from evoprompt.populations import SteadyPopulation
from evoprompt.testing.samples import candidate
from evoprompt.types import Candidate


class Families(RuleBasedStateMachine):
    """Adds and removes at random, beside a model that keeps plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.population = SteadyPopulation()
        self.population.add(candidate(0))
        self.alive = ["c0"]
        self.ever: dict[str, Candidate] = {"c0": candidate(0)}

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        parents = data.draw(st.lists(st.sampled_from(sorted(self.ever)), unique=True, max_size=3))
        born = candidate(len(self.ever), parents)
        self.population.add(born)
        self.alive.append(born.id)
        self.ever[born.id] = born

    @rule(number=st.integers(0, 3))
    def add_again(self, number: int) -> None:
        known = sorted(self.ever)[number % len(self.ever)]
        with pytest.raises(ValueError, match="used before"):
            self.population.add(Candidate(known, {"instruction": "x"}))

    @rule()
    def add_its_own_child(self) -> None:
        name = f"c{len(self.ever)}"
        with pytest.raises(ValueError, match="never lived"):
            self.population.add(Candidate(name, {"instruction": "x"}, (name,)))

    @precondition(lambda self: len(self.alive) > 1)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        some = st.lists(st.sampled_from(self.alive), unique=True, max_size=len(self.alive) - 1)
        doomed = data.draw(some)
        self.population.remove(doomed)
        self.alive = [name for name in self.alive if name not in doomed]

    @rule()
    def remove_all(self) -> None:
        with pytest.raises(ValueError, match="never empty"):
            self.population.remove(self.alive)

    @rule()
    def remove_a_stranger_beside_a_living(self) -> None:
        with pytest.raises(ValueError, match="not alive: \\['stranger'\\]"):
            self.population.remove([self.alive[0], "stranger"])

    @rule()
    def save_and_load(self) -> None:
        resumed = SteadyPopulation()
        resumed.load_state_dict(json.loads(json.dumps(self.population.state_dict())))
        self.population = resumed

    @invariant()
    def the_living_are_those_of_the_model(self) -> None:
        assert [one.id for one in self.population.alive] == self.alive
        assert len(self.population) == len(self.alive) > 0
        assert all((name in self.population) == (name in self.alive) for name in self.ever)

    @invariant()
    def lineage_is_complete_and_acyclic(self) -> None:
        for name, one in self.ever.items():
            expected = set(one.parents)
            while more := {p for a in expected for p in self.ever[a].parents} - expected:
                expected |= more
            found = self.population.ancestors(name)
            assert {ancestor.id for ancestor in found} == expected
            assert len(found) == len(expected)
            assert name not in expected


TestFamilies = Families.TestCase
TestFamilies.settings = settings(max_examples=20, stateful_step_count=20)


def test_ancestors_come_nearest_first() -> None:
    population = SteadyPopulation()
    for number, parents in enumerate([[], ["c0"], ["c0"], ["c2", "c1"], ["c3"]]):
        population.add(candidate(number, parents))
    assert [one.id for one in population.ancestors("c4")] == ["c3", "c2", "c1", "c0"]


def test_removing_one_twice_in_a_call_is_removing_it() -> None:
    population = SteadyPopulation()
    for number in range(2):
        population.add(candidate(number))
    population.remove(["c1", "c1"])
    assert [one.id for one in population.alive] == ["c0"]
