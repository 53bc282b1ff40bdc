"""Who fills the roles: the built-ins that the numbers ask for, or whom the user gave."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.populations import SteadyPopulation
from evoprompt.proposers.combinators import NoProposer
from evoprompt.roles import Selector
from evoprompt.selectors import Softmax
from evoprompt.support.errors import ComponentError, InputError
from evoprompt.testing.samples import question
from evoprompt.types import Candidate, CandidateStats, Trajectory
from evoprompt.verifiers import InTraining, ReplayTopN, Unverified


@pytest.mark.parametrize(
    ("numbers", "attributor", "sampler", "verifier"),
    [
        ({}, Adjusted, Softmax, InTraining),
        ({"accept": "not-worse"}, Adjusted, Softmax, ReplayTopN),
        ({"preset": "inspo"}, WindowMean, Softmax, ReplayTopN),
        ({"accept": "all"}, Adjusted, Softmax, Unverified),
    ],
)
def test_the_numbers_choose_the_built_ins(
    numbers: dict[str, Any], attributor: type, sampler: type, verifier: type
) -> None:
    engine = Engine(["Think."], config=EngineConfig(**numbers))
    assert type(engine.selection.attributor) is attributor
    assert type(engine.selection.sampler) is sampler
    assert type(engine.generations.verifier) is verifier


@pytest.mark.parametrize("given", [Adjusted(), Softmax, "softmax"])
def test_who_cannot_fill_the_role_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match=r"sampler is .*; required: Selector"):
        Engine(["Think."], sampler=given)


class Failing(Selector):
    """Draws when the test lets it."""

    def __init__(self) -> None:
        self.works = True

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        if not self.works:
            raise RuntimeError("out of luck")
        return [candidate_stats[0]] * k


def test_one_that_fails_ends_training_and_is_named_and_the_training_resumes() -> None:
    sampler = Failing()
    engine = Engine(["Think."], sampler=sampler, config=EngineConfig(min_groups=1))
    asked = engine.ask([question(1)], 1)
    engine.tell([Trajectory(one, 1.0) for one in asked])
    saved = engine.state_dict()
    sampler.works = False
    expected = r"the sampler Failing of .*test_components failed \(RuntimeError: out of luck\)"
    with pytest.raises(ComponentError, match=expected):
        engine.ask([question(2)], 1)
    fixed = Engine(["Think."], sampler=Failing(), config=EngineConfig(min_groups=1))
    fixed.load_state_dict(saved)
    assert len(fixed.ask([question(2)], 1)) == 1


class Forgetful(WindowMean):
    """Gives weights that are no numbers."""

    def stats(self, candidate: Candidate) -> CandidateStats:
        return CandidateStats(candidate, math.nan, groups=1)


def test_a_weight_that_is_no_number_ends_training() -> None:
    engine = Engine(["Think."], attributor=Forgetful())
    with pytest.raises(ComponentError, match=r"attributor Forgetful of .* weight of c0 is nan"):
        engine.ask([question(1)], 1)


class Crowd(SteadyPopulation):
    """Loses count when the test says so."""

    lost = False

    @property
    def members(self) -> Sequence[Candidate]:
        if self.lost:
            raise RuntimeError("lost count")
        return super().members


def test_a_population_that_fails_is_not_taken_for_the_attributor() -> None:
    crowd = Crowd()
    engine = Engine(["Think."], population=crowd)
    crowd.lost = True
    with pytest.raises(ComponentError, match=r"the population Crowd of .*lost count"):
        engine.ask([question(1)], 1)


class Mute(NoProposer):
    """Cannot say what became of it."""

    def notices(self) -> Sequence[str]:
        raise RuntimeError("no words")


def test_a_proposer_that_fails_elsewhere_than_in_proposing_is_named() -> None:
    engine = Engine(["Think."], proposer=Mute())
    with pytest.raises(ComponentError, match=r"the proposer Mute of .*no words"):
        engine.tell([Trajectory(one, 1.0) for one in engine.ask([question(1)], 1)])
