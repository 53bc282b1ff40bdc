"""Which assignments are out, and which of their trajectories came back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated

from pydantic import JsonValue, PlainSerializer, TypeAdapter

from evoprompt.config import Grouping
from evoprompt.errors import AlreadyToldError, InputError, UnknownAssignmentError
from evoprompt.types import Assignment, Candidate, Question, Trajectory

STALE_AFTER = 100
"""Steps after which an assignment that was never fully told is forgotten."""


@dataclass(slots=True)
class _Entry:
    assignment: Assignment
    asked_at: int
    # In order, so that a saved state does not depend on how a set happens to iterate.
    told: Annotated[set[int], PlainSerializer(sorted)] = field(default_factory=set)


_ENTRIES = TypeAdapter(list[_Entry])


class AssignmentTracker:
    """Gives assignments their ids and accepts each of their trajectories exactly once."""

    def __init__(self) -> None:
        self._asked = 0
        self._out: OrderedDict[str, _Entry] = OrderedDict()

    @property
    def pending(self) -> Mapping[str, Assignment]:
        """Assignments not fully told, by id, oldest first."""
        return MappingProxyType({id_: entry.assignment for id_, entry in self._out.items()})

    def issue(
        self,
        questions: Sequence[Question],
        drawn: Sequence[Candidate],
        rollouts: int,
        grouping: Grouping,
        step: int,
    ) -> list[Assignment]:
        """New assignments of ``drawn`` to ``questions``, the same number to each, in order."""
        each = len(drawn) // len(questions)
        issued: list[Assignment] = []
        for index, candidate in enumerate(drawn):
            identity = f"a{self._asked}"
            starts_group = grouping == "candidate" or index % each == 0
            group = identity if starts_group else issued[-1].group
            issued.append(
                Assignment(identity, questions[index // each], candidate, rollouts, group)
            )
            self._out[identity] = _Entry(issued[-1], step)
            self._asked += 1
        return issued

    def receive(self, trajectories: Sequence[Trajectory]) -> None:
        """Marks ``trajectories`` as told; all of them, or none if one is refused.

        Raises:
            UnknownAssignmentError: an assignment was never issued here, or to another candidate.
            AlreadyToldError: a trajectory came before, comes twice, or too late.
            InputError: a reward or metric is NaN or infinite, or a rollout index is out of range.
        """
        seen: set[tuple[str, int]] = set()
        for trajectory in trajectories:
            self._check(trajectory, seen)
            seen.add((trajectory.assignment.id, trajectory.rollout))
        for identity, rollout in seen:
            entry = self._out[identity]
            entry.told.add(rollout)
            if len(entry.told) == entry.assignment.rollouts:
                del self._out[identity]

    def forget_stale(self, step: int) -> None:
        """Drops assignments asked more than ``STALE_AFTER`` steps before ``step``."""
        while self._out and step - next(iter(self._out.values())).asked_at > STALE_AFTER:
            self._out.popitem(last=False)

    def _check(self, trajectory: Trajectory, seen: set[tuple[str, int]]) -> None:
        identity, rollout = trajectory.assignment.id, trajectory.rollout
        entry = self._out.get(identity)
        if entry is None:
            if self._was_issued(identity):
                raise AlreadyToldError(
                    f"assignment {identity!r} was fully told before, or forgotten after "
                    f"{STALE_AFTER} steps; required: each trajectory once; tell new ones only"
                )
            raise UnknownAssignmentError(
                f"assignment {identity!r} was never given by this engine; required: an assignment "
                "returned by ask; check which engine it came from"
            )
        asked, told = entry.assignment, trajectory.assignment
        if told is not asked and _pair(told) != _pair(asked):
            raise UnknownAssignmentError(
                f"assignment {identity!r} pairs question {trajectory.question.id!r} with candidate "
                f"{trajectory.candidate.id!r}; this engine gave {asked.question.id!r} to "
                f"{asked.candidate.id!r} under that id; check which engine it came from"
            )
        if rollout in entry.told or (identity, rollout) in seen:
            raise AlreadyToldError(
                f"rollout {rollout} of assignment {identity!r} was told before; required: each "
                "trajectory once; number the rollouts of an assignment from 0"
            )
        if not 0 <= rollout < asked.rollouts:
            raise InputError(
                f"rollout index {rollout} of assignment {identity!r}; required: 0 to "
                f"{asked.rollouts - 1}, since ask was given rollouts={asked.rollouts}"
            )
        trajectory.require_finite()

    def _was_issued(self, identity: str) -> bool:
        number = identity[1:]
        return identity[:1] == "a" and number.isdecimal() and int(number) < self._asked

    def state_dict(self) -> dict[str, JsonValue]:
        """The assignments that are out, as JSON values."""
        entries = _ENTRIES.dump_python(list(self._out.values()), mode="json")
        return {"asked": self._asked, "entries": entries}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        entries = _ENTRIES.validate_python(state["entries"])
        self._asked = TypeAdapter(int).validate_python(state["asked"])
        self._out = OrderedDict((entry.assignment.id, entry) for entry in entries)


def _pair(assignment: Assignment) -> tuple[str, Candidate]:
    return assignment.question.id, assignment.candidate
