"""A proposer that thinks ahead is started in time, and once a generation."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from evoprompt.config import EngineConfig
from evoprompt.engine.schedule import ProposalScheduler
from evoprompt.events import Event, Notice
from evoprompt.interfaces import ProposalRequest
from evoprompt.proposers.silent import Silent
from evoprompt.testing.samples import candidate, candidate_stats, question, trajectory
from evoprompt.types import Proposal, Trajectory


class Thinker:
    """Thinks until it is told to be ready."""

    def __init__(self) -> None:
        self.ready = False
        self.requests: list[ProposalRequest] = []

    def anticipate(self, request: ProposalRequest) -> None:
        self.requests.append(request)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return []


REQUEST = ProposalRequest(1, candidate_stats([0.5]), [], [], random.Random(0))


def ask() -> ProposalRequest:
    return REQUEST


def told(*rewards: float | None) -> list[Trajectory]:
    return [trajectory(candidate(0), question(n), reward) for n, reward in enumerate(rewards)]


@pytest.fixture
def thinker() -> Thinker:
    return Thinker()


@pytest.fixture
def notices() -> list[Event]:
    return []


@pytest.fixture
def foresight(thinker: Thinker, notices: list[Event]) -> ProposalScheduler:
    """Generations at steps 5 and 10, from 3 failures."""
    config = EngineConfig(evolve_every=5, evolve_until=12, failures_per_request=3)
    return ProposalScheduler(thinker, config, notices.append)


def test_starts_as_soon_as_enough_failures_have_come_in(
    foresight: ProposalScheduler, thinker: Thinker
) -> None:
    foresight.watch(1, told(0.0, 1.0, None, 0.5), ask)
    foresight.watch(2, told(0.4), ask)
    assert thinker.requests == []
    foresight.watch(3, told(0.0), ask)
    assert thinker.requests == [REQUEST]


def test_starts_once_a_generation(foresight: ProposalScheduler, thinker: Thinker) -> None:
    for step in range(1, 5):
        foresight.watch(step, told(0.0, 0.0, 0.0), ask)
    assert len(thinker.requests) == 1
    foresight.begin_anew()
    foresight.watch(6, told(0.0, 0.0), ask)
    assert len(thinker.requests) == 1
    foresight.watch(7, told(0.0), ask)
    assert len(thinker.requests) == 2


@pytest.mark.parametrize(("step", "starts"), [(9, True), (10, False), (11, False)])
def test_does_not_start_for_a_generation_that_never_comes(
    foresight: ProposalScheduler, thinker: Thinker, step: int, starts: bool
) -> None:
    foresight.watch(step, told(0.0, 0.0, 0.0), ask)
    assert bool(thinker.requests) == starts


def test_does_not_start_one_that_has_an_answer(
    foresight: ProposalScheduler, thinker: Thinker
) -> None:
    thinker.ready = True
    foresight.watch(1, told(0.0, 0.0, 0.0), ask)
    assert thinker.requests == []
    assert foresight.is_ready(5, ask)


def test_starts_one_that_is_due_without_failures(
    foresight: ProposalScheduler, thinker: Thinker, notices: list[Event]
) -> None:
    assert not foresight.is_ready(5, ask)
    assert not foresight.is_ready(6, ask)
    assert thinker.requests == [REQUEST]
    (notice,) = notices
    assert notice == Notice(
        5, "evolution is due at step 5 but the proposer is still thinking; training goes on"
    )


def test_is_late_anew_in_the_next_generation(
    foresight: ProposalScheduler, notices: list[Event]
) -> None:
    foresight.is_ready(5, ask)
    foresight.begin_anew()
    foresight.is_ready(10, ask)
    assert [notice.step for notice in notices] == [5, 10]


def test_a_proposer_that_does_not_anticipate_is_always_ready(notices: list[Event]) -> None:
    foresight = ProposalScheduler(Silent(), EngineConfig(failures_per_request=1), notices.append)
    foresight.watch(1, told(0.0), ask)
    assert foresight.is_ready(5, ask)
    assert notices == []


def test_after_a_resume_the_lost_thought_is_begun_again_and_noted_once(
    foresight: ProposalScheduler, thinker: Thinker, notices: list[Event]
) -> None:
    foresight.watch(1, told(0.0, 0.0, 0.0), ask)
    foresight.is_ready(5, ask)
    state: dict[str, Any] = json.loads(json.dumps(foresight.state_dict()))
    resumed = ProposalScheduler(thinker, EngineConfig(failures_per_request=3), notices.append)
    resumed.load_state_dict(state)
    resumed.watch(6, told(None), ask)
    assert not resumed.is_ready(6, ask)
    assert len(thinker.requests) == 2
    assert len(notices) == 1
