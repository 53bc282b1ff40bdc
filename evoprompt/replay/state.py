"""The replay buffer as JSON values: each question and each candidate is written once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, JsonValue, NonNegativeInt

from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn

T = TypeVar("T", Question, Candidate)


@dataclass(slots=True)
class QuestionRecord:
    """How one question has gone so far; it goes on changing while the buffer learns.

    Attributes:
        question: the question.
        scored: number of scored trajectories.
        failed: how many of them failed.
        reward: sum of their rewards.
        step: the last step it was seen at.
    """

    question: Question
    scored: int = 0
    failed: int = 0
    reward: float = 0.0
    step: int = 0

    @property
    def information(self) -> float:
        """How much a comparison on it is likely to show: p (1 - p), p being its share of failures.

        0 where it always failed or never did.
        """
        share = self.failed / self.scored
        return share * (1 - share)


@dataclass(frozen=True, slots=True)
class Memory:
    """A trajectory and the engine step it was told at."""

    step: int
    trajectory: Trajectory


class _Told(BaseModel):
    """A memory; question and candidate are places in the lists of the state."""

    step: int
    question: NonNegativeInt
    candidate: NonNegativeInt
    assignment: str
    rollouts: int
    group: str
    purpose: Literal["train", "verify"]
    rollout: int
    reward: float | None
    turns: tuple[Turn, ...]
    metrics: dict[str, float]
    feedback: str = ""


class _Record(BaseModel):
    """A question's record; question is a place in the list of the state."""

    question: NonNegativeInt
    scored: int
    failed: int
    reward: float
    step: int


class _State(BaseModel):
    questions: list[Question]
    candidates: list[Candidate]
    told: list[_Told]
    records: list[_Record]


class _Table(Generic[T]):
    """Different values in the order of their first use; an id may come with several."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._places: dict[str, list[int]] = {}

    def place(self, value: T) -> int:
        """Where ``value`` stands in ``values``, of which it becomes the last if it is new."""
        places = self._places.setdefault(value.id, [])
        for place in places:
            if self.values[place] == value:
                return place
        places.append(len(self.values))
        self.values.append(value)
        return places[-1]


def dump(memories: Iterable[Memory], records: Iterable[QuestionRecord]) -> dict[str, JsonValue]:
    """``memories`` and ``records`` as JSON values."""
    questions: _Table[Question] = _Table()
    candidates: _Table[Candidate] = _Table()
    told = [
        _Told(
            step=memory.step,
            question=questions.place(memory.trajectory.question),
            candidate=candidates.place(memory.trajectory.candidate),
            assignment=memory.trajectory.assignment.id,
            rollouts=memory.trajectory.assignment.rollouts,
            group=memory.trajectory.assignment.group,
            purpose=memory.trajectory.assignment.purpose,
            rollout=memory.trajectory.rollout,
            reward=memory.trajectory.reward,
            turns=memory.trajectory.turns,
            metrics=dict(memory.trajectory.metrics),
            feedback=memory.trajectory.feedback,
        )
        for memory in memories
    ]
    kept = [
        _Record(
            question=questions.place(record.question),
            scored=record.scored,
            failed=record.failed,
            reward=record.reward,
            step=record.step,
        )
        for record in records
    ]
    state = _State.model_construct(
        questions=questions.values, candidates=candidates.values, told=told, records=kept
    )
    return state.model_dump(mode="json")


def load(state: Mapping[str, JsonValue]) -> tuple[list[Memory], list[QuestionRecord]]:
    """The memories and records in ``state``.

    Raises:
        LookupError: a place is not in its list.
        ValueError: a value is of the wrong type or missing.
    """
    found = _State.model_validate(dict(state))
    memories = [
        Memory(
            told.step,
            Trajectory(
                Assignment(
                    told.assignment,
                    found.questions[told.question],
                    found.candidates[told.candidate],
                    told.rollouts,
                    told.group,
                    told.purpose,
                ),
                told.reward,
                told.rollout,
                told.turns,
                told.metrics,
                told.feedback,
            ),
        )
        for told in found.told
    ]
    records = [
        QuestionRecord(
            found.questions[record.question],
            record.scored,
            record.failed,
            record.reward,
            record.step,
        )
        for record in found.records
    ]
    return memories, records
