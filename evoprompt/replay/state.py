"""What the replay buffer remembers, and how it is saved: anew only what is new.

Trajectories, questions and candidates never change, so each is a line of JSON that is made when it
is first saved and used again at every later save. Questions and candidates are written once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pydantic import BaseModel, FiniteFloat, JsonValue, NonNegativeInt, TypeAdapter

from evoprompt.replay.numbers import Dumped, Numbers, held, line
from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn


@dataclass(slots=True)
class QuestionRecord:
    """How one question has gone so far; it goes on changing while the buffer learns.

    Attributes:
        question: the question.
        scored: number of scored trajectories.
        failed: how many of them failed.
        reward: sum of their rewards.
        step: the last step it was seen at.
        number: of the question, where it is saved.
    """

    question: Question
    scored: int = 0
    failed: int = 0
    reward: float = 0.0
    step: int = 0
    number: int = field(default=-1, compare=False, repr=False)

    @property
    def information(self) -> float:
        """How much a comparison on it is likely to show: p (1 - p), p being its share of failures.

        0 where it always failed or never did.
        """
        share = self.failed / self.scored
        return share * (1 - share)


@dataclass(slots=True)
class Memory:
    """A trajectory and the engine step it was told at.

    Attributes:
        step: the step.
        trajectory: the trajectory.
        question: number of its question.
        candidate: number of its candidate.
        line: how it is saved, if it was and is short enough.
    """

    step: int
    trajectory: Trajectory
    question: int
    candidate: int
    line: str | None = field(default=None, compare=False, repr=False)


class _Told(NamedTuple):
    """The values in the line of a memory."""

    step: int
    question: NonNegativeInt
    candidate: NonNegativeInt
    assignment: str
    rollouts: int
    group: str
    purpose: Literal["train", "verify"]
    rollout: int
    reward: FiniteFloat | None
    turns: tuple[Turn, ...]
    metrics: dict[str, FiniteFloat]
    feedback: str


class _State(BaseModel):
    """The lines of memories, joined by line feeds; the records are one line."""

    questions: Dumped
    candidates: Dumped
    told: str
    records: str


_TOLD = TypeAdapter(_Told)
_RECORDS = TypeAdapter(list[tuple[NonNegativeInt, int, int, FiniteFloat, int]])
_QUESTION = TypeAdapter(Question)
_CANDIDATE = TypeAdapter(Candidate)


class Archive:
    """Numbers what is remembered, and writes it down."""

    def __init__(self) -> None:
        self._questions = Numbers(_QUESTION)
        self._candidates = Numbers(_CANDIDATE)

    def memory(self, step: int, trajectory: Trajectory) -> Memory:
        """A new memory."""
        return Memory(
            step,
            trajectory,
            self._questions.take(trajectory.question),
            self._candidates.take(trajectory.candidate),
        )

    def forget(self, memory: Memory) -> None:
        """To be called when ``memory`` is dropped."""
        self._questions.release(memory.question)
        self._candidates.release(memory.candidate)

    def record(self, question: Question) -> QuestionRecord:
        """A new record."""
        return QuestionRecord(question, number=self._questions.take(question))

    def forget_record(self, record: QuestionRecord) -> None:
        """To be called when ``record`` is dropped."""
        self._questions.release(record.number)

    def dump(
        self, memories: Iterable[Memory], records: Iterable[QuestionRecord]
    ) -> dict[str, JsonValue]:
        """``memories`` and ``records`` as JSON values."""
        return {
            "questions": self._questions.dump(),
            "candidates": self._candidates.dump(),
            "told": "\n".join([memory.line or _line(memory) for memory in memories]),
            "records": line([[r.number, r.scored, r.failed, r.reward, r.step] for r in records]),
        }

    def load(self, state: Mapping[str, JsonValue]) -> tuple[list[Memory], list[QuestionRecord]]:
        """The memories and records in ``state``.

        Raises:
            LookupError: there is no question or candidate with a number.
            ValueError: a value is of the wrong type or missing.
        """
        found = _State.model_validate(dict(state))
        self._questions.load(found.questions)
        self._candidates.load(found.candidates)
        memories = [self._memory(made) for made in found.told.split("\n") if made]
        records = [
            QuestionRecord(self._questions.use(number), scored, failed, reward, step, number)
            for number, scored, failed, reward, step in _RECORDS.validate_json(found.records)
        ]
        return memories, records

    def _memory(self, made: str) -> Memory:
        told = _TOLD.validate_python(json.loads(made))
        assignment = Assignment(
            told.assignment,
            self._questions.use(told.question),
            self._candidates.use(told.candidate),
            told.rollouts,
            told.group,
            told.purpose,
        )
        trajectory = Trajectory(
            assignment, told.reward, told.rollout, told.turns, told.metrics, told.feedback
        )
        return Memory(told.step, trajectory, told.question, told.candidate, held(made))


def _line(memory: Memory) -> str:
    trajectory, assignment = memory.trajectory, memory.trajectory.assignment
    told = _Told(
        memory.step,
        memory.question,
        memory.candidate,
        assignment.id,
        assignment.rollouts,
        assignment.group,
        assignment.purpose,
        trajectory.rollout,
        trajectory.reward,
        trajectory.turns,
        dict(trajectory.metrics),
        trajectory.feedback,
    )
    made = line(_TOLD.dump_python(told, mode="json"))
    memory.line = held(made)
    return made
