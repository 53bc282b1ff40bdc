"""A proposer that thinks ahead is asked as late as its answers allow, by the engine's own steps."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from evoprompt.schedule import ProposalScheduler, Unfilled

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.eventlog import EventLog
from evoprompt.events import Event, Notice
from evoprompt.proposers.none import NoProposer
from evoprompt.roles import ProposalRequest
from evoprompt.testing.samples import candidate_stats
from evoprompt.types import Proposal

ALIVE = {"c0", "c1"}


class Thinker(Proposer):
    """Thinks until it is told to be ready."""

    def __init__(self) -> None:
        self.is_ready = False
        self.requests: list[ProposalRequest] = []

    @property
    def ready(self) -> bool:
        return self.is_ready

    def anticipate(self, request: ProposalRequest) -> None:
        self.requests.append(request)
        self.is_ready = False

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return []


class Training:
    """A scheduler at the default settings, and steps; the first candidate leads.

    Attributes:
        asked: the steps at which the proposer was asked.
    """

    def __init__(self, thinker: Thinker, **numbers: Any) -> None:
        self.thinker = thinker
        self.events: list[Event] = []
        log = EventLog()
        log.subscribe(self.events.append)
        self.schedule = ProposalScheduler(thinker, EngineConfig(**numbers), log)
        self.step = 0
        self.due = False
        self.living = set(ALIVE)
        self.asked: list[int] = []

    def ask(self) -> ProposalRequest:
        self.asked.append(self.step)
        leaders = [s for s in candidate_stats([0.5, 0.4]) if s.candidate.id in self.living]
        return ProposalRequest(1, leaders[:1], [], [], random.Random(0), self.step)

    def tell(self) -> None:
        self.step += 1
        self.due |= self.schedule.is_due(self.step)
        self.schedule.watch(self.step, self.due, self.ask, self.living)

    def evolve(self) -> bool:
        """Whether a generation took place, as it does where an answer has come."""
        if not self.due or not self.schedule.is_ready(self.step, self.ask):
            return False
        self.thinker.is_ready = self.due = False
        self.schedule.begin_anew(self.step)
        return True

    def run(self, steps: int, latency: int) -> list[int]:
        """The steps of the generations of ``steps`` steps with answers after ``latency`` steps."""
        found = []
        for _ in range(steps):
            self.tell()
            self.thinker.is_ready = bool(self.asked) and self.step >= self.asked[-1] + latency
            self.thinker.is_ready &= self.schedule._state.asked is not None
            if self.evolve():
                found.append(self.step)
            self.schedule.look(self.step)  # as the engine does when it is asked
        return found

    @property
    def notices(self) -> list[tuple[int, str]]:
        return [(one.step, one.message) for one in self.events if isinstance(one, Notice)]


@pytest.fixture
def thinker() -> Thinker:
    return Thinker()


@pytest.fixture
def training(thinker: Thinker) -> Training:
    return Training(thinker)


@pytest.mark.parametrize(
    ("latency", "asked", "evolved"),
    [
        (0, [14, 30, 45, 60], [15, 30, 45, 60]),
        (1, [14, 29, 44, 59], [15, 30, 45, 60]),
        (5, [14, 26, 40, 55], [19, 31, 45, 60]),
        (7, [14, 28, 42, 56], [21, 35, 49, 63]),
        (20, [14, 41, 68], [34, 61]),
    ],
)
def test_it_is_asked_as_many_steps_before_as_its_answers_took(
    training: Training, latency: int, asked: list[int], evolved: list[int]
) -> None:
    """But never in the first half of a period, so that its last children are measured."""
    assert training.run(70, latency)[: len(evolved)] == evolved
    assert training.asked[: len(asked)] == asked


def test_an_odd_answer_is_not_learnt_from(training: Training) -> None:
    training.run(31, 1)
    training.run(20, 4)
    training.run(50, 1)
    assert training.asked == [14, 29, 44, 59, 74, 89]


@pytest.mark.parametrize(("step", "starts"), [(148, False), (149, True), (151, False)])
def test_it_is_not_asked_for_a_generation_that_never_comes(
    training: Training, thinker: Thinker, step: int, starts: bool
) -> None:
    training.step = step - 1
    training.tell()
    assert bool(thinker.requests) == starts


def test_one_that_has_an_answer_is_not_asked(training: Training, thinker: Thinker) -> None:
    thinker.is_ready = True
    for _ in range(15):
        training.tell()
    assert thinker.requests == []
    assert training.schedule.is_ready(15, training.ask)


def test_that_it_is_late_is_told_once_a_generation(training: Training) -> None:
    training.run(21, 100)
    assert training.schedule.late
    training.thinker.is_ready = True
    assert training.evolve()
    training.run(9, 100)
    late = "but the proposer is still thinking; training goes on"
    assert training.notices == [
        (15, f"evolution is due at step 15 {late}"),
        (30, f"evolution is due at step 30 {late}"),
    ]


class TestWhenTheParentDies:
    def test_it_is_asked_again_about_who_leads_now(
        self, training: Training, thinker: Thinker
    ) -> None:
        training.run(14, 9)
        training.living = {"c1"}
        assert training.run(10, 9) == [24]
        assert [r.parents[0].candidate.id for r in thinker.requests] == ["c0", "c1"]
        assert training.asked == [14, 15]
        assert training.notices[0] == (
            15,
            "c0 has died since the proposer was asked to improve it; it is asked again, about c1",
        )

    def test_also_where_the_answer_has_come(self, training: Training, thinker: Thinker) -> None:
        training.run(14, 0)
        assert thinker.ready
        training.living = {"c1"}
        training.tell()
        assert not thinker.ready
        assert training.asked == [14, 15]

    def test_but_only_once(self, training: Training, thinker: Thinker) -> None:
        training.run(14, 9)
        training.living = {"c1"}
        training.run(1, 9)
        training.living = {"c2"}
        assert training.run(9, 9) == [24]
        assert training.asked == [14, 15]
        assert [parent.id for parent in training.schedule.parents] == []


class TestGenerationsThatGoOn:
    LEFT = Unfilled(rounds=1, tried=6, admitted=2, places=4)

    def begun(self, thinker: Thinker, latency: int) -> Training:
        """A training at step 15, whose proposer takes so many steps, and whose answer has come."""
        training = Training(thinker)
        training.run(15 + latency, latency)
        training.run(45 - training.step, latency)
        assert training.step == 45
        return training

    @pytest.mark.parametrize(("latency", "goes_on"), [(1, True), (6, True), (7, False)])
    def test_where_an_answer_may_come_in_the_first_half_of_a_period(
        self, thinker: Thinker, latency: int, goes_on: bool
    ) -> None:
        training = self.begun(thinker, latency)
        before = len(training.asked)
        assert training.schedule.go_on(45, self.LEFT, training.ask) == goes_on
        assert len(training.asked) == before + goes_on
        assert training.schedule.unfilled == (self.LEFT if goes_on else None)

    def test_end_when_the_answer_does_not(self, thinker: Thinker) -> None:
        training = self.begun(thinker, 1)
        training.schedule.go_on(45, self.LEFT, training.ask)
        assert [training.schedule.given_up(step) for step in range(46, 52)] == [None] * 6
        assert training.schedule.given_up(52) == self.LEFT
        assert training.schedule.unfilled is None
        assert training.schedule.is_due(60)

    def test_leave_no_answer_to_the_next_one(self, thinker: Thinker) -> None:
        training = self.begun(thinker, 1)
        training.schedule.go_on(45, self.LEFT, training.ask)
        assert training.schedule.given_up(52) == self.LEFT
        thinker.is_ready = True  # now it comes
        training.step = 58
        training.tell()
        assert training.asked[-1] == 59
        assert not thinker.ready

    def test_keep_their_parent(self, thinker: Thinker) -> None:
        """For a further round of the same children there is no time to ask again."""
        training = self.begun(thinker, 1)
        training.schedule.go_on(45, self.LEFT, training.ask)
        before = len(training.asked)
        training.living = {"c1"}
        training.tell()
        assert len(training.asked) == before

    def test_are_not_called_late(self, thinker: Thinker) -> None:
        training = self.begun(thinker, 1)
        before = training.notices
        training.schedule.go_on(45, self.LEFT, training.ask)
        assert not training.schedule.is_ready(46, training.ask)
        assert training.notices == before


def test_a_proposer_that_does_not_anticipate_is_always_ready() -> None:
    log = EventLog()
    schedule = ProposalScheduler(NoProposer(), EngineConfig(), log)

    def never() -> ProposalRequest:
        raise AssertionError("nobody is to be asked")

    schedule.watch(15, True, never, ALIVE)
    assert schedule.is_ready(15, never)
    assert len(log) == 0


def resumed(before: Training, thinker: Thinker) -> Training:
    after = Training(thinker)
    after.schedule.load_state_dict(json.loads(json.dumps(before.schedule.state_dict())))
    after.step, after.due = before.step, before.due
    return after


def test_a_resumed_run_asks_when_the_whole_one_does(thinker: Thinker) -> None:
    whole = Training(thinker)
    whole.run(20, 5)
    after = resumed(whole, Thinker())
    assert whole.run(45, 5) == after.run(45, 5) == [31, 45, 60]
    assert whole.asked[1:] == after.asked


@pytest.mark.parametrize(
    ("answered", "asked"),
    [
        pytest.param(False, [16], id="a thought that was lost is begun again"),
        pytest.param(True, [], id="an answer that had come is kept"),
    ],
)
def test_what_was_asked_before_a_kill(
    training: Training, answered: bool, asked: Sequence[int]
) -> None:
    training.run(15, 99)
    again = Thinker()
    after = resumed(training, again)
    again.is_ready = answered
    after.tell()
    assert after.asked == asked
    assert after.evolve() == answered
    assert after.notices == []  # that it is late was told before


def test_whom_it_was_asked_about_is_known_after_a_resume(training: Training) -> None:
    training.run(14, 9)
    again = Thinker()
    after = resumed(training, again)
    again.is_ready = True
    after.living = {"c1"}
    after.tell()
    assert after.asked == [15]
    assert "c0 has died" in after.notices[0][1]
