"""Every trajectory is accepted once; a refused call leaves no trace."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.assignments import STALE_AFTER, AssignmentTracker
from evoprompt.errors import AlreadyToldError, InputError, UnknownAssignmentError
from evoprompt.testing.samples import candidate, question
from evoprompt.types import Assignment, Trajectory

QUESTIONS = [question(0), question(1)]
BROKEN: list[tuple[Callable[[Assignment], Trajectory], type[Exception], str]] = [
    (
        lambda asked: Trajectory(replace(asked, id="a9"), 1.0),
        UnknownAssignmentError,
        "'a9' was never given",
    ),
    (
        lambda asked: Trajectory(replace(asked, id="a2"), 1.0),  # the next one to be issued
        UnknownAssignmentError,
        "'a2' was never given",
    ),
    (
        lambda asked: Trajectory(replace(asked, id="c0/1"), 1.0),
        UnknownAssignmentError,
        "'c0/1' was never given",
    ),
    (
        lambda asked: Trajectory(replace(asked, id=""), 1.0),
        UnknownAssignmentError,
        "'' was never given",
    ),
    (
        lambda asked: Trajectory(replace(asked, candidate=candidate(9)), 1.0),
        UnknownAssignmentError,
        "check which engine it came from",
    ),
    (
        lambda asked: Trajectory(replace(asked, question=question(9)), 1.0),
        UnknownAssignmentError,
        "check which engine it came from",
    ),
    (
        lambda asked: Trajectory(replace(asked, id="a0"), 1.0),
        AlreadyToldError,
        "'a0' was fully told before",
    ),
    (lambda asked: Trajectory(asked, 1.0, 0), AlreadyToldError, "rollout 0 of assignment 'a1'"),
    (lambda asked: Trajectory(asked, 1.0, 1), AlreadyToldError, "rollout 1 of assignment 'a1'"),
    (lambda asked: Trajectory(asked, 1.0, 4), InputError, "rollout index 4 .* required: 0 to 3"),
    (lambda asked: Trajectory(asked, 1.0, -1), InputError, "rollout index -1"),
    (lambda asked: Trajectory(asked, math.nan, 3), InputError, "reward nan"),
    (lambda asked: Trajectory(asked, -math.inf, 3), InputError, "reward -inf"),
    (lambda asked: Trajectory(asked, 1.0, 3, (), {"t": math.nan}), InputError, "t nan"),
]


def through_json(tracker: AssignmentTracker) -> AssignmentTracker:
    resumed = AssignmentTracker()
    resumed.load_state_dict(json.loads(json.dumps(tracker.state_dict())))
    return resumed


class TestIssue:
    def test_gives_each_question_its_candidates_in_order(self) -> None:
        drawn = [candidate(number) for number in (3, 1, 2, 3)]
        issued = AssignmentTracker().issue(QUESTIONS, drawn, 5, "candidate", 0)
        assert [(a.id, a.question.id, a.candidate.id) for a in issued] == [
            ("a0", "q0", "c3"),
            ("a1", "q0", "c1"),
            ("a2", "q1", "c2"),
            ("a3", "q1", "c3"),
        ]
        assert {(a.rollouts, a.purpose) for a in issued} == {(5, "train")}

    def test_a_candidate_group_is_one_assignment(self) -> None:
        issued = AssignmentTracker().issue(QUESTIONS, [candidate(0)] * 4, 5, "candidate", 0)
        assert len({assignment.group for assignment in issued}) == 4

    def test_a_question_group_holds_all_candidates_of_a_question(self) -> None:
        issued = AssignmentTracker().issue(
            QUESTIONS, [candidate(n) for n in range(6)], 5, "question", 0
        )
        groups = [assignment.group for assignment in issued]
        assert groups[:3] == [groups[0]] * 3
        assert groups[3:] == [groups[3]] * 3
        assert groups[0] != groups[3]

    def test_the_same_question_twice_in_a_batch_makes_two_groups(self) -> None:
        twice = [question(0), question(0)]
        issued = AssignmentTracker().issue(twice, [candidate(0)] * 4, 5, "question", 0)
        assert len({assignment.group for assignment in issued}) == 2

    def test_ids_and_groups_are_never_used_again(self) -> None:
        tracker = AssignmentTracker()
        first = tracker.issue(QUESTIONS, [candidate(0)] * 2, 1, "candidate", 0)
        tracker.receive([Trajectory(assignment, 1.0) for assignment in first])
        later = tracker.issue(QUESTIONS, [candidate(0)] * 2, 1, "candidate", 1)
        assert not {a.id for a in first} & {a.id for a in later}
        assert not {a.group for a in first} & {a.group for a in later}


class TestReceive:
    @pytest.fixture
    def tracker(self) -> AssignmentTracker:
        """Assignment a0 is fully told, a1 by half."""
        tracker = AssignmentTracker()
        told = tracker.issue(QUESTIONS, [candidate(0)] * 2, 4, "candidate", 0)
        tracker.receive([Trajectory(told[0], 1.0, n) for n in range(4)])
        tracker.receive([Trajectory(told[1], 1.0, n) for n in range(2)])
        return tracker

    @given(order=st.permutations(range(6)), cut=st.integers(0, 6), late=st.booleans())
    def test_takes_results_in_any_order_and_in_parts(
        self, order: list[int], cut: int, late: bool
    ) -> None:
        tracker = AssignmentTracker()
        issued = tracker.issue(QUESTIONS, [candidate(0)] * 2, 3, "candidate", 0)
        told = [Trajectory(issued[n // 3], 1.0, n % 3) for n in order]
        tracker.receive(told[:cut])
        expected = {t.assignment.id for t in told[cut:]}
        assert set(tracker.pending) == expected
        if late:
            tracker = through_json(tracker)
        tracker.receive(told[cut:])
        assert not tracker.pending

    @pytest.mark.parametrize(("broken", "error", "message"), BROKEN)
    def test_refuses_and_stays_as_it_was(
        self,
        tracker: AssignmentTracker,
        broken: Callable[[Assignment], Trajectory],
        error: type[Exception],
        message: str,
    ) -> None:
        asked = tracker.pending["a1"]
        before = copy.deepcopy(tracker.state_dict())
        with pytest.raises(error, match=message):
            tracker.receive([Trajectory(asked, 1.0, 2), broken(asked)])
        with pytest.raises(error, match=message):
            tracker.receive([broken(asked), Trajectory(asked, 1.0, 2)])
        assert tracker.state_dict() == before

    def test_refuses_one_told_twice_in_a_call(self, tracker: AssignmentTracker) -> None:
        last = Trajectory(tracker.pending["a1"], 1.0, 2)
        with pytest.raises(AlreadyToldError, match="rollout 2 of assignment 'a1'"):
            tracker.receive([last, last])
        assert list(tracker.pending) == ["a1"]

    def test_takes_a_rollout_without_a_reward(self, tracker: AssignmentTracker) -> None:
        tracker.receive([Trajectory(tracker.pending["a1"], None, n) for n in (2, 3)])
        assert not tracker.pending

    def test_pending_cannot_be_changed_from_outside(self, tracker: AssignmentTracker) -> None:
        with pytest.raises(TypeError):
            tracker.pending["a1"] = tracker.pending["a1"]  # type: ignore[index]


class TestForgetStale:
    def test_forgets_only_what_was_asked_too_long_ago(self) -> None:
        tracker = AssignmentTracker()
        for step in range(4):
            tracker.issue(QUESTIONS[:1], [candidate(0)], 1, "candidate", step)
        tracker.forget_stale(STALE_AFTER + 1)
        assert list(tracker.pending) == ["a1", "a2", "a3"]

    def test_a_forgotten_one_is_refused_by_name(self) -> None:
        tracker = AssignmentTracker()
        (stale,) = tracker.issue(QUESTIONS[:1], [candidate(0)], 1, "candidate", 0)
        tracker.forget_stale(STALE_AFTER + 1)
        with pytest.raises(AlreadyToldError, match=f"forgotten after {STALE_AFTER} steps"):
            tracker.receive([Trajectory(stale, 1.0)])


def test_continues_from_a_saved_state() -> None:
    tracker = AssignmentTracker()
    issued = tracker.issue(QUESTIONS, [candidate(0), candidate(1)], 2, "question", 7)
    tracker.receive([Trajectory(issued[0], 1.0, 1)])
    resumed = through_json(tracker)
    assert resumed.pending == tracker.pending
    assert resumed.issue(QUESTIONS, [candidate(0)] * 2, 1, "candidate", 8) == tracker.issue(
        QUESTIONS, [candidate(0)] * 2, 1, "candidate", 8
    )
    for one in (tracker, resumed):
        with pytest.raises(AlreadyToldError):
            one.receive([Trajectory(issued[0], 1.0, 1)])
        one.receive([Trajectory(issued[0], 1.0, 0)])
        one.forget_stale(7 + STALE_AFTER + 1)
    assert resumed.state_dict() == tracker.state_dict()
