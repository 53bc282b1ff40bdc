"""The replay buffer: trajectories worth learning from again, failures of late steps first."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

from pydantic import JsonValue

from evoprompt.replay.state import Archive, Memory, QuestionRecord
from evoprompt.types import Question, Trajectory

T = TypeVar("T")

_FLOOR = 0.1  # a question that never failed keeps this much priority, so that verification sees it


def worth_reading(
    rollouts: Mapping[T, tuple[str, int, float]], failure_below: float, failures: int
) -> set[T]:
    """The rollouts of one step whose text a host should keep.

    Of the failures of a candidate as many as a request to the proposer shows, whoever the parent
    turns out to be; of its successes one, which the report shows. Of different questions as long as
    there are some.

    Args:
        rollouts: for each the id of its candidate, its index in the assignment and its reward.
        failure_below: reward below which one is a failure.
        failures: most of a candidate, ``EngineConfig.failures_per_request``.

    >>> step = {"a0": ("c0", 0, 0.1), "a1": ("c0", 1, 0.1), "b0": ("c0", 0, 1.0)}
    >>> sorted(worth_reading(step, failure_below=0.5, failures=1))
    ['a0', 'b0']
    """
    taken: Counter[tuple[str, bool]] = Counter()
    chosen: set[T] = set()
    for key, (candidate, _, reward) in sorted(rollouts.items(), key=lambda item: item[1][1]):
        failed = reward < failure_below
        if taken[candidate, failed] < (failures if failed else 1):
            taken[candidate, failed] += 1
            chosen.add(key)
    return chosen


class ReplayBuffer:
    """A bounded memory of scored trajectories and of their questions (paper §3.2).

    Adding costs the same however long the history is. When full, successes make room first, then
    failures without text (from which no proposer learns), then other failures, the oldest first.

    Args:
        capacity: trajectories kept, and questions kept; at least 1.
        failure_below: a reward under this is a failure.
    """

    def __init__(self, capacity: int = 1024, failure_below: float = 0.5) -> None:
        self.capacity = capacity
        self.failure_below = failure_below
        self._read: deque[Memory] = deque()
        self._unread: deque[Memory] = deque()
        self._successes: deque[Memory] = deque()
        self._questions: OrderedDict[str, QuestionRecord] = OrderedDict()
        self._archive = Archive()

    def __len__(self) -> int:
        return len(self._read) + len(self._unread) + len(self._successes)

    def __iter__(self) -> Iterator[Trajectory]:
        """All remembered trajectories: failures with text, without, successes; oldest first."""
        yield from (memory.trajectory for memory in self._memories())

    def _memories(self) -> Sequence[Memory]:
        return (*self._read, *self._unread, *self._successes)

    def _remember(self, memory: Memory) -> None:
        trajectory = memory.trajectory
        if not self._failed(trajectory):
            self._successes.append(memory)
        elif trajectory.turns:
            self._read.append(memory)
        else:
            self._unread.append(memory)

    def _failed(self, trajectory: Trajectory) -> bool:
        return trajectory.reward is not None and trajectory.reward < self.failure_below

    def add(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Remembers the scored ones of ``trajectories``, told at engine step ``step``."""
        for trajectory in trajectories:
            if trajectory.reward is None:
                continue
            self._remember(self._archive.memory(step, trajectory))
            question = trajectory.question
            record = self._questions.get(question.id)
            if record is None:
                record = self._questions[question.id] = self._archive.record(question)
            record.scored += 1
            record.failed += self._failed(trajectory)
            record.reward += trajectory.reward
            record.step = step
            self._questions.move_to_end(question.id)
        for _ in range(len(self) - self.capacity):
            self._archive.forget((self._successes or self._unread or self._read).popleft())
        for _ in range(len(self._questions) - self.capacity):
            _, record = self._questions.popitem(last=False)
            self._archive.forget_record(record)

    def record(self, question_id: str) -> QuestionRecord | None:
        """How a question has gone, or None if it is not remembered."""
        return self._questions.get(question_id)

    @property
    def records(self) -> Sequence[QuestionRecord]:
        """All remembered questions, the longest unseen first."""
        return list(self._questions.values())

    def known(self, question: Question) -> Question:
        """The remembered question if it equals ``question``, so that a row is held only once."""
        record = self._questions.get(question.id)
        return record.question if record and record.question == question else question

    def failures(
        self, k: int, rng: random.Random, candidates: Collection[str] = ()
    ) -> list[Trajectory]:
        """Up to ``k`` failures: with text before without, then those of ``candidates`` first.

        Later steps come before earlier ones; failures of one step come in random order, so that
        the same question does not always lead.
        """
        chosen: list[Trajectory] = []
        for memories in (self._read, self._unread):
            for preferred in (True, False):
                chosen += _latest(
                    k - len(chosen),
                    rng,
                    (
                        memory
                        for memory in reversed(memories)
                        if (memory.trajectory.candidate.id in candidates) == preferred
                    ),
                )
        return chosen

    def questions(self, k: int, rng: random.Random) -> list[Question]:
        """Up to ``k`` different questions, drawn by priority without replacement.

        The priority of a question is its share of failures (at least 0.1) over its age in steps.
        """
        records = self.records
        return _drawn(k, rng, records, [max(one.failed / one.scored, _FLOOR) for one in records])

    def informative(self, k: int, rng: random.Random) -> list[Question]:
        """Up to ``k`` different questions: first those that sometimes failed and sometimes not.

        Those are drawn by p (1 - p) over their age in steps, without replacement, p being their
        share of failures; on the others, which follow as ``questions`` draws them, candidates
        hardly differ.
        """
        told_apart = [record for record in self.records if record.information]
        found = _drawn(k, rng, told_apart, [record.information for record in told_apart])
        if len(found) == k:
            return found
        others = [record for record in self.records if not record.information]
        shares = [max(one.failed / one.scored, _FLOOR) for one in others]
        return found + _drawn(k - len(found), rng, others, shares)

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything remembered, as JSON values; every question and candidate once.

        What an earlier call has written is not written anew.
        """
        return self._archive.dump(self._memories(), self._questions.values())

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Remembers exactly what ``state`` holds."""
        archive = Archive()
        memories, records = archive.load(state)
        self._archive = archive
        self._read, self._unread, self._successes = deque(), deque(), deque()
        for memory in memories:
            self._remember(memory)
        self._questions = OrderedDict((record.question.id, record) for record in records)


def _drawn(
    k: int, rng: random.Random, records: Sequence[QuestionRecord], priorities: Sequence[float]
) -> list[Question]:
    """Up to ``k`` questions without replacement, in proportion to priority over age."""
    latest = max((record.step for record in records), default=0)

    def race(record: QuestionRecord, priority: float) -> float:
        # Exponential races do that (Efraimidis and Spirakis, 2006).
        return -math.log(1.0 - rng.random()) / (priority / (1 + latest - record.step))

    timed = [
        (race(record, priority), index)
        for index, (record, priority) in enumerate(zip(records, priorities, strict=True))
    ]
    return [records[index].question for _, index in heapq.nsmallest(k, timed)]


def _latest(k: int, rng: random.Random, newest_first: Iterable[Memory]) -> list[Trajectory]:
    chosen: list[Trajectory] = []
    for _, same_step in groupby(newest_first, key=lambda memory: memory.step):
        if len(chosen) >= k:
            break
        block = [memory.trajectory for memory in same_step]
        rng.shuffle(block)
        chosen += block
    return chosen[: max(k, 0)]
