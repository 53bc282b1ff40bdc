"""Tracker of pending assignments and of the trajectories that were received for them."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated

from pydantic import JsonValue, PlainSerializer, TypeAdapter

from evoprompt.config import Grouping
from evoprompt.support.errors import AlreadyToldError, InputError, UnknownAssignmentError
from evoprompt.types import Assignment, Candidate, Question, Trajectory

STALE_AFTER = 100
"""Steps after which an assignment with missing trajectories is forgotten."""


@dataclass(slots=True)
class _PendingAssignment:
    """A pending assignment, in the form of a saved state."""

    assignment: Assignment
    issued_at: int
    # In order, so that a saved state does not depend on how a set happens to iterate.
    received: Annotated[set[int], PlainSerializer(sorted)] = field(default_factory=set)


_ENTRIES = TypeAdapter(list[_PendingAssignment])


class AssignmentTracker:
    """Tracker that issues assignments and accepts each of their trajectories exactly once.

    A pending assignment costs one object, the assignment: with three of them Python's garbage
    collector took half of the time of a large ``ask``.
    """

    def __init__(self) -> None:
        self._num_issued = 0
        self._pending: OrderedDict[str, Assignment] = OrderedDict()
        self._steps: dict[str, int] = {}  # step of each assignment's issue
        self._received: dict[str, int] = {}  # bits of the received rollouts, if any
        self._counts: Counter[str] = Counter()

    @property
    def pending(self) -> Mapping[str, Assignment]:
        """Return the assignments with missing trajectories, by id, oldest first."""
        return MappingProxyType(dict(self._pending))

    def count_pending(self, candidate: str) -> int:
        """Return how many assignments of a candidate are pending."""
        return self._counts[candidate]

    def issue(
        self,
        questions: Sequence[Question],
        drawn_candidates: Sequence[Candidate],
        rollouts: int,
        grouping: Grouping,
        step: int,
    ) -> list[Assignment]:
        """Issue assignments of candidates to ``questions``, in order.

        Each question gets the same number of assignments.

        Args:
            questions: the questions.
            drawn_candidates: the drawn candidates: those of the first question, then those of the
                second, and so on.
            rollouts: number of rollouts of each assignment.
            grouping: whether an assignment or a question is a group.
            step: the engine step.
        """
        per_question = len(drawn_candidates) // len(questions)
        issued: list[Assignment] = []
        for index, candidate in enumerate(drawn_candidates):
            identity = f"a{self._num_issued}"
            starts_group = grouping == "candidate" or index % per_question == 0
            group = identity if starts_group else issued[-1].group
            issued.append(
                Assignment(identity, questions[index // per_question], candidate, rollouts, group)
            )
            self._add(issued[-1], step)
            self._num_issued += 1
        return issued

    def receive(self, trajectories: Sequence[Trajectory]) -> None:
        """Mark ``trajectories`` as received; all of them, or none if one is refused.

        Raises:
            UnknownAssignmentError: an assignment was never issued here, or to another candidate.
            AlreadyToldError: a trajectory was received before, is repeated, or comes too late.
            InputError: a reward or metric is NaN or infinite, or a rollout index is out of range.
        """
        received: dict[str, int] = {}
        for trajectory in trajectories:
            identity = trajectory.assignment.id
            bits = received.get(identity)
            if bits is None:
                bits = self._received.get(identity, 0)
            self._check(trajectory, bits)
            received[identity] = bits | 1 << int(trajectory.rollout)
        for identity, bits in received.items():
            if bits.bit_count() == self._pending[identity].rollouts:
                self._remove(identity)
            else:
                self._received[identity] = bits

    def forget_stale(self, step: int) -> None:
        """Drop assignments that were issued more than ``STALE_AFTER`` steps before ``step``."""
        while self._pending:
            oldest = next(iter(self._pending))
            if step - self._steps[oldest] <= STALE_AFTER:
                break
            self._remove(oldest)

    def _add(self, assignment: Assignment, step: int) -> None:
        self._pending[assignment.id] = assignment
        self._steps[assignment.id] = step
        self._counts[assignment.candidate.id] += 1

    def _remove(self, identity: str) -> None:
        candidate = self._pending.pop(identity).candidate.id
        del self._steps[identity]
        self._received.pop(identity, None)
        self._counts[candidate] -= 1
        if not self._counts[candidate]:
            del self._counts[candidate]

    def _check(self, trajectory: Trajectory, received: int) -> None:
        """Refuse a trajectory that cannot be recorded.

        ``received`` are the bits of the rollouts received so far.
        """
        identity, rollout = trajectory.assignment.id, trajectory.rollout
        issued, assignment = self._pending.get(identity), trajectory.assignment
        if issued is None:
            if self._was_issued(identity):
                raise AlreadyToldError(
                    f"assignment {identity!r} has all its trajectories, or was forgotten after "
                    f"{STALE_AFTER} steps; required: each trajectory once; pass only new ones to "
                    "tell"
                )
            raise UnknownAssignmentError(
                f"assignment {identity!r} was never given by this engine; required: an assignment "
                "returned by ask; check which engine it came from"
            )
        if assignment is not issued and _pair(assignment) != _pair(issued):
            raise UnknownAssignmentError(
                f"assignment {identity!r} pairs question {trajectory.question.id!r} with candidate "
                f"{trajectory.candidate.id!r}; this engine gave {issued.question.id!r} to "
                f"{issued.candidate.id!r} under that id; check which engine it came from"
            )
        if not 0 <= rollout < issued.rollouts:
            raise InputError(
                f"rollout index {rollout} of assignment {identity!r}; required: 0 to "
                f"{issued.rollouts - 1}, since ask was given rollouts={issued.rollouts}"
            )
        if received >> int(rollout) & 1:
            raise AlreadyToldError(
                f"rollout {rollout} of assignment {identity!r} was passed to tell before; "
                "required: each trajectory once; number the rollouts of an assignment from 0"
            )
        trajectory.require_finite()

    def _was_issued(self, identity: str) -> bool:
        number = identity[1:]
        return identity[:1] == "a" and number.isdecimal() and int(number) < self._num_issued

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the pending assignments, as JSON values."""
        entries = [
            _PendingAssignment(
                assignment, self._steps[identity], _numbers(self._received.get(identity, 0))
            )
            for identity, assignment in self._pending.items()
        ]
        return {"issued": self._num_issued, "entries": _ENTRIES.dump_python(entries, mode="json")}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``."""
        entries = _ENTRIES.validate_python(state["entries"])
        self._num_issued = TypeAdapter(int).validate_python(state["issued"])
        for forgotten in (self._pending, self._steps, self._received, self._counts):
            forgotten.clear()
        for entry in entries:
            self._add(entry.assignment, entry.issued_at)
            if entry.received:
                self._received[entry.assignment.id] = sum(1 << number for number in entry.received)


def _numbers(bits: int) -> set[int]:
    """Return the numbers of the set bits."""
    return {number for number in range(bits.bit_length()) if bits >> number & 1}


def _pair(assignment: Assignment) -> tuple[str, Candidate]:
    return assignment.question.id, assignment.candidate
