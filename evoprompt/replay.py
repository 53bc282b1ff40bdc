"""The replay buffer: trajectories worth learning from again, failures of late steps first."""

from __future__ import annotations

import heapq
import math
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pydantic import JsonValue, TypeAdapter

from evoprompt.types import Question, Trajectory

_FLOOR = 0.1  # a question that never failed keeps this much priority, so that verification sees it


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


@dataclass(frozen=True, slots=True)
class _Memory:
    step: int
    trajectory: Trajectory


_Filter = Callable[[_Memory], bool]
_MEMORIES = TypeAdapter(list[_Memory])
_RECORDS = TypeAdapter(list[QuestionRecord])


class ReplayBuffer:
    """A bounded memory of scored trajectories and of their questions (paper §3.2).

    Adding costs the same however long the history is. When full, successes make room before
    failures, the oldest first.

    Args:
        capacity: trajectories kept, and questions kept; at least 1.
        failure_below: a reward under this is a failure.
    """

    def __init__(self, capacity: int = 1024, failure_below: float = 0.5) -> None:
        self.capacity = capacity
        self.failure_below = failure_below
        self._failures: deque[_Memory] = deque()
        self._successes: deque[_Memory] = deque()
        self._questions: OrderedDict[str, QuestionRecord] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures) + len(self._successes)

    def __iter__(self) -> Iterator[Trajectory]:
        """All remembered trajectories, failures before successes, oldest first."""
        yield from (memory.trajectory for memory in (*self._failures, *self._successes))

    def add(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Remembers the scored ones of ``trajectories``, told at engine step ``step``."""
        for trajectory in trajectories:
            if trajectory.reward is None:
                continue
            failed = trajectory.reward < self.failure_below
            (self._failures if failed else self._successes).append(_Memory(step, trajectory))
            question = trajectory.question
            record = self._questions.get(question.id)
            if record is None:
                record = self._questions[question.id] = QuestionRecord(question)
            record.scored += 1
            record.failed += failed
            record.reward += trajectory.reward
            record.step = step
            self._questions.move_to_end(question.id)
        for _ in range(len(self) - self.capacity):
            (self._successes or self._failures).popleft()
        for _ in range(len(self._questions) - self.capacity):
            self._questions.popitem(last=False)

    def record(self, question_id: str) -> QuestionRecord | None:
        """How a question has gone, or None if it is not remembered."""
        return self._questions.get(question_id)

    @property
    def records(self) -> Sequence[QuestionRecord]:
        """All remembered questions, the longest unseen first."""
        return list(self._questions.values())

    def failures(
        self, k: int, rng: random.Random, candidates: Collection[str] = ()
    ) -> list[Trajectory]:
        """Up to ``k`` failures: those of ``candidates`` before others', later steps before earlier.

        Failures of one step come in random order, so that the same question does not always lead.
        """
        preferred = self._latest(
            k, rng, lambda memory: memory.trajectory.candidate.id in candidates
        )
        others = self._latest(
            k - len(preferred),
            rng,
            lambda memory: memory.trajectory.candidate.id not in candidates,
        )
        return preferred + others

    def _latest(self, k: int, rng: random.Random, wanted: _Filter) -> list[Trajectory]:
        chosen: list[Trajectory] = []
        newest_first = (memory for memory in reversed(self._failures) if wanted(memory))
        for _, same_step in groupby(newest_first, key=lambda memory: memory.step):
            if len(chosen) >= k:
                break
            block = [memory.trajectory for memory in same_step]
            rng.shuffle(block)
            chosen += block
        return chosen[: max(k, 0)]

    def questions(self, k: int, rng: random.Random) -> list[Question]:
        """Up to ``k`` different questions, drawn by priority without replacement.

        The priority of a question is its share of failures (at least 0.1) over its age in steps.
        """
        latest = max((record.step for record in self._questions.values()), default=0)

        def race(record: QuestionRecord) -> float:
            # Exponential races draw without replacement in proportion to the priority
            # (Efraimidis and Spirakis, 2006).
            priority = max(record.failed / record.scored, _FLOOR) / (1 + latest - record.step)
            return -math.log(1.0 - rng.random()) / priority

        timed = [(race(record), index) for index, record in enumerate(self._questions.values())]
        records = self.records
        return [records[index].question for _, index in heapq.nsmallest(k, timed)]

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything remembered, as JSON values."""
        return {
            "failures": _MEMORIES.dump_python(list(self._failures), mode="json"),
            "successes": _MEMORIES.dump_python(list(self._successes), mode="json"),
            "questions": _RECORDS.dump_python(list(self._questions.values()), mode="json"),
        }

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Remembers exactly what ``state`` holds."""
        failures = deque(_MEMORIES.validate_python(state["failures"]))
        successes = deque(_MEMORIES.validate_python(state["successes"]))
        records = _RECORDS.validate_python(state["questions"])
        self._failures, self._successes = failures, successes
        self._questions = OrderedDict((record.question.id, record) for record in records)
