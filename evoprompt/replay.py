"""The replay buffer: trajectories to learn from again, failures of late steps first."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, JsonValue

from evoprompt.log.corpus import RolloutCorpus, failure_kind
from evoprompt.support.credentials import masked_texts
from evoprompt.types import Candidate, Question, Trajectory, is_usable

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_MAX_KINDS_READ = 1024  # failures whose kind is determined for a request
_FLOOR = 0.1  # a question that never failed keeps this much priority, so that verification sees it


@dataclass(slots=True)
class QuestionRecord:
    """Counts of one question so far; they change while the buffer records trajectories.

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


class Memory(NamedTuple):
    """A trajectory with its engine step."""

    step: int
    trajectory: Trajectory


class _ReplayState(BaseModel):
    """Everything remembered; questions and candidates once, however often they were met."""

    questions: dict[str, Question]
    candidates: dict[str, Candidate]
    memories: list[Memory]
    records: list[QuestionRecord]


def rollouts_to_keep(
    rollouts: Mapping[K, tuple[str, str, int, float]], failure_below: float, failures: int
) -> set[K]:
    """Return the rollouts of a step that a host should keep with their text.

    For each candidate these are as many failures as a request to the proposer shows, of different
    questions as far as possible, and one success on the question of each of these failures;
    otherwise one success of the candidate, which the report shows.

    Args:
        rollouts: for each rollout the ids of candidate and question, the index in the assignment
            and the reward; a rollout whose reward is not finite is left out.
        failure_below: reward below which a rollout is a failure.
        failures: most of a candidate, ``EngineConfig.failures_per_request``.

    >>> step = {"a0": ("c0", "a", 0, 0.1), "a1": ("c0", "a", 1, 0.1), "b0": ("c0", "b", 0, 1.0)}
    >>> sorted(rollouts_to_keep(step, failure_below=0.5, failures=1))
    ['a0', 'b0']
    """
    failed: list[tuple[int, K]] = []
    nth: Counter[tuple[str, str]] = Counter()
    solved: dict[tuple[str, str], K] = {}
    for key, (candidate, question, _, reward) in sorted(
        rollouts.items(), key=lambda item: item[1][2]
    ):
        if not is_usable(reward):
            continue
        if reward < failure_below:
            failed.append((nth[candidate, question], key))
            nth[candidate, question] += 1
        else:
            for pair in ((candidate, question), ("", question), (candidate, "")):
                solved.setdefault(pair, key)
    chosen: set[K] = set()
    counts: Counter[str] = Counter()
    for _, key in sorted(failed, key=lambda pair: pair[0]):
        candidate, question, *_ = rollouts[key]
        if counts[candidate] < failures:
            counts[candidate] += 1
            chosen.add(key)
            beside = solved.get((candidate, question), solved.get(("", question)))
            chosen |= set() if beside is None else {beside}
    shown_candidates = {rollouts[key][0] for key in chosen if rollouts[key][3] >= failure_below}
    first = {pair[0]: key for pair, key in solved.items() if not pair[1]}
    return chosen | {key for candidate, key in first.items() if candidate not in shown_candidates}


class ReplayBuffer:
    """A bounded memory of scored trajectories and of their questions (paper §3.2).

    Adding costs the same however long the history is. Successes without text are not kept. When
    full, failures without text make room first, then successes, then failures; the oldest first.

    Args:
        capacity: trajectories kept, and questions kept; at least 1.
        failure_below: a reward under this is a failure.
    """

    def __init__(self, capacity: int = 1024, failure_below: float = 0.5) -> None:
        self.capacity = capacity
        self.failure_below = failure_below
        self._read: deque[Memory] = deque()
        self._unread: deque[Memory] = deque()
        self._solved: deque[Memory] = deque()
        self._questions: OrderedDict[str, QuestionRecord] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._tiers()))

    def __iter__(self) -> Iterator[Trajectory]:
        """Iterate over the trajectories: failures, successes, failures without text.

        The oldest of each kind comes first.
        """
        yield from (memory.trajectory for memory in chain(*self._tiers()))

    def _tiers(self) -> Sequence[deque[Memory]]:
        """Return the tiers of the buffer; the last one makes room first."""
        return (self._read, self._solved, self._unread)

    def _remember(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Remember the scored ones of a step, as many as there is room for.

        Credentials in their texts are masked: proposers read them, and checkpoints hold them.
        """
        read: list[Trajectory] = []
        solved: list[Trajectory] = []
        unread: list[Trajectory] = []
        for trajectory in trajectories:
            if trajectory.reward is None:
                continue
            if self._failed(trajectory):
                (read if trajectory.turns else unread).append(trajectory)
            elif trajectory.turns:
                solved.append(trajectory)
        room = self.capacity
        for tier, new in zip(self._tiers(), (read, solved, unread), strict=True):
            for _ in range(min(len(tier) + len(new) - room, len(tier))):
                tier.popleft()
            latest = new[max(len(new) - room, 0) :]
            tier.extend(Memory(step, trajectory) for trajectory in _without_credentials(latest))
            room -= len(tier)

    def _failed(self, trajectory: Trajectory) -> bool:
        return trajectory.reward is not None and trajectory.reward < self.failure_below

    def add(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Add the scored trajectories of engine step ``step``."""
        record: QuestionRecord | None = None
        for trajectory in trajectories:
            if trajectory.reward is None:
                continue
            question = trajectory.question
            if record is None or record.question.id != question.id:
                record = self._questions.get(question.id)
                if record is None:
                    record = self._questions[question.id] = QuestionRecord(question)
                self._questions.move_to_end(question.id)
            record.scored += 1
            record.failed += self._failed(trajectory)
            record.reward += trajectory.reward
            record.step = step
        self._remember(step, trajectories)
        for _ in range(len(self._questions) - self.capacity):
            self._questions.popitem(last=False)

    def corpus(self) -> RolloutCorpus:
        """Return all rollouts with text, as of now."""
        rollouts = [memory.trajectory for memory in chain(self._read, self._solved)]
        return RolloutCorpus(rollouts, self.failure_below)

    def add_verification(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Record the readable trajectories of a verification after engine step ``step``.

        How its questions have gone stays as it is: a verification drew them for being hard, and
        would go on drawing the same ones.
        """
        self._remember(step, [trajectory for trajectory in trajectories if trajectory.turns])

    @property
    def records(self) -> Sequence[QuestionRecord]:
        """Return all questions, those not used for longest first."""
        return list(self._questions.values())

    def intern_question(self, question: Question) -> Question:
        """Return the stored question that equals ``question``, so that a row is held only once."""
        record = self._questions.get(question.id)
        return record.question if record and record.question == question else question

    def failures(
        self, k: int, rng: random.Random, candidates: Collection[str] = ()
    ) -> list[Trajectory]:
        """Return up to ``k`` failures: with text first, then those of ``candidates`` first.

        Of these, one of each question comes before a second one of any. Otherwise one of each kind
        (:func:`~evoprompt.log.corpus.failure_kind`) comes before a second one of any, and later
        steps before earlier ones; failures of one step come in random order, so that the same
        question does not always lead.
        """
        chosen: list[Trajectory] = []
        for memories in (self._read, self._unread):
            own_memories = [
                memory for memory in memories if memory.trajectory.candidate.id in candidates
            ]
            other_memories = [
                memory for memory in memories if memory.trajectory.candidate.id not in candidates
            ]
            for group, by_candidate in ((own_memories, True), (other_memories, False)):
                if len(chosen) < k:
                    chosen += _different_first(k - len(chosen), rng, group, by_candidate)
        return chosen

    def successes(self, failures: Sequence[Trajectory]) -> list[Trajectory]:
        """Return for each question of ``failures`` a success with text, if there is one.

        The latest under the same candidate, else the latest under any.
        """
        own_trajectories: dict[tuple[str, str], Trajectory] = {}
        any_: dict[str, Trajectory] = {}
        for memory in self._solved:
            trajectory = memory.trajectory
            own_trajectories[trajectory.question.id, trajectory.candidate.id] = any_[
                trajectory.question.id
            ] = trajectory
        successes: dict[str, Trajectory] = {}
        for failure in failures:
            name = failure.question.id
            beside = own_trajectories.get((name, failure.candidate.id), any_.get(name))
            if beside is not None:
                successes.setdefault(name, beside)
        return list(successes.values())

    def questions(self, k: int, rng: random.Random) -> list[Question]:
        """Return up to ``k`` different questions, drawn by priority without replacement.

        The priority of a question is its share of failures (at least 0.1) over its age in steps.
        """
        records = self.records
        return _drawn(
            k, rng, records, [max(record.failed / record.scored, _FLOOR) for record in records]
        )

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the records as JSON values."""
        questions = {name: record.question for name, record in self._questions.items()}
        candidates: dict[str, Candidate] = {}
        memories: list[Memory] = []
        for step, trajectory in chain(*self._tiers()):
            questions.setdefault(trajectory.question.id, trajectory.question)
            candidates[trajectory.candidate.id] = trajectory.candidate
            stub = replace(
                trajectory.assignment,
                question=Question(trajectory.question.id, ""),
                candidate=Candidate(trajectory.candidate.id, {}),
            )
            memories.append(Memory(step, replace(trajectory, assignment=stub)))
        records = [
            replace(record, question=Question(name, "")) for name, record in self._questions.items()
        ]
        return _ReplayState(
            questions=questions,
            candidates=candidates,
            memories=memories,
            records=records,
        ).model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Restore exactly the records of ``state``.

        Raises:
            LookupError: a question or candidate is missing.
            ValueError: a value is of the wrong type or missing.
        """
        saved = _ReplayState.model_validate(dict(state))
        memories = [
            Memory(
                step,
                replace(
                    trajectory,
                    assignment=replace(
                        trajectory.assignment,
                        question=saved.questions[trajectory.question.id],
                        candidate=saved.candidates[trajectory.candidate.id],
                    ),
                ),
            )
            for step, trajectory in saved.memories
        ]
        records = [
            replace(record, question=saved.questions[record.question.id])
            for record in saved.records
        ]
        for tier in self._tiers():
            tier.clear()
        for step, group in groupby(memories, key=lambda memory: memory.step):
            self._remember(step, [memory.trajectory for memory in group])
        self._questions = OrderedDict((record.question.id, record) for record in records)


def _drawn(
    k: int, rng: random.Random, records: Sequence[QuestionRecord], priorities: Sequence[float]
) -> list[Question]:
    """Return up to ``k`` questions without replacement, in proportion to priority over age."""
    latest = max((record.step for record in records), default=0)

    def race(record: QuestionRecord, priority: float) -> float:
        # Exponential races do that (Efraimidis and Spirakis, 2006).
        return -math.log(1.0 - rng.random()) / (priority / (1 + latest - record.step))

    timed = [
        (race(record, priority), index)
        for index, (record, priority) in enumerate(zip(records, priorities, strict=True))
    ]
    return [records[index].question for _, index in heapq.nsmallest(k, timed)]


def _different_first(
    k: int, rng: random.Random, memories: Sequence[Memory], by_candidate: bool
) -> list[Trajectory]:
    """Return up to ``k`` of ``memories``: one of each question, then a second one of each.

    Of as many kinds of failure as possible, and the latest of a kind first.

    Args:
        k: most of them.
        rng: orders those of one step.
        memories: oldest first.
        by_candidate: whether a question and a kind count for each candidate anew.
    """
    latest: list[Memory] = []
    for _, same_step in groupby(reversed(memories), key=lambda memory: memory.step):
        block = list(same_step)
        rng.shuffle(block)
        latest += block

    def owner(memory: Memory) -> str:
        return memory.trajectory.candidate.id if by_candidate else ""

    def wording(memory: Memory) -> str:
        """Return the question's text: a host may ask the same text under several ids."""
        question = memory.trajectory.question
        return question.text or question.id

    def by_question(memories: Sequence[Memory]) -> list[Memory]:
        return _take_turns([(wording(memory), owner(memory)) for memory in memories], memories)

    first = by_question(latest)[: max(k, _MAX_KINDS_READ)]
    kinds = [(failure_kind(memory.trajectory), owner(memory)) for memory in first]
    return [memory.trajectory for memory in by_question(_take_turns(kinds, first))[:k]]


def _take_turns(kinds: Sequence[Hashable], items: Sequence[T]) -> list[T]:
    """Return ``items`` so that one of each kind comes before a second one of any.

    Otherwise the order stays.

    >>> _take_turns("aabab", [1, 2, 3, 4, 5])
    [1, 3, 2, 5, 4]
    """
    seen: Counter[Hashable] = Counter()
    ranks: list[tuple[int, int]] = []
    for index, kind in enumerate(kinds):
        ranks.append((seen[kind], index))
        seen[kind] += 1
    return [items[index] for _, index in sorted(ranks)]


def _without_credentials(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Return ``trajectories`` with their texts masked; the same objects where none is to mask.

    All are masked in one call, since each call reads the environment.
    """
    texts = [(trajectory.turns, trajectory.feedback) for trajectory in trajectories]
    return [
        trajectory
        if (turns, feedback) == (trajectory.turns, trajectory.feedback)
        else replace(trajectory, turns=turns, feedback=feedback)
        for trajectory, (turns, feedback) in zip(trajectories, masked_texts(texts), strict=True)
    ]
