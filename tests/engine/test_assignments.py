"""Pending assignments: how long they are remembered, and what of them a saved state holds."""

from __future__ import annotations

import pytest

from evoprompt.log.assignments import STALE_AFTER, AssignmentTracker
from evoprompt.support.errors import AlreadyToldError
from evoprompt.testing.samples import candidate, question
from evoprompt.types import Assignment, Trajectory


def issued(tracker: AssignmentTracker, rollouts: int = 1, step: int = 0) -> Assignment:
    """Return a new assignment of c0."""
    (assignment,) = tracker.issue([question(1)], [candidate(0)], rollouts, "candidate", step)
    return assignment


def test_an_assignment_is_forgotten_after_a_hundred_steps_and_not_before() -> None:
    tracker = AssignmentTracker()
    issued(tracker, step=5)
    tracker.forget_stale(5 + STALE_AFTER)
    assert list(tracker.pending) == ["a0"]
    tracker.forget_stale(6 + STALE_AFTER)
    assert not tracker.pending


def test_the_assignments_of_a_candidate_are_counted_down() -> None:
    tracker = AssignmentTracker()
    first, second = issued(tracker), issued(tracker)
    assert tracker.count_pending("c0") == 2
    for number, assignment in enumerate((first, second), start=1):
        tracker.receive([Trajectory(assignment, 1.0)])
        assert tracker.count_pending("c0") == 2 - number


def test_a_saved_state_knows_which_rollouts_were_received() -> None:
    tracker, resumed = AssignmentTracker(), AssignmentTracker()
    assignment = issued(tracker, rollouts=3)
    tracker.receive([Trajectory(assignment, 1.0, 1)])
    resumed.load_state_dict(tracker.state_dict())
    assert resumed.state_dict() == tracker.state_dict()
    with pytest.raises(AlreadyToldError):
        resumed.receive([Trajectory(assignment, 1.0, 1)])
    resumed.receive([Trajectory(assignment, 1.0, 0), Trajectory(assignment, 1.0, 2)])
    assert not resumed.pending
