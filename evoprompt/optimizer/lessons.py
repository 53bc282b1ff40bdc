"""Which training questions to learn from: those that a candidate is known, or likely, to fail."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Generic

from evoprompt.optimizer.data import ExampleT, Item
from evoprompt.optimizer.evaluator import Evaluator
from evoprompt.optimizer.runner import OutputT, WrittenT
from evoprompt.types import Candidate, Trajectory

_RECENT = 0.5  # share of the latest rollout in how hard a question is held to be


class Lessons(Generic[WrittenT, ExampleT, OutputT]):
    """Finds failures of a candidate with few rollouts: known ones first, then likely ones.

    Args:
        evaluator: makes the rollouts.
        train: the training set.
        perfect: the greatest reward there is; anything less is a failure.
        shown: failures wanted.
    """

    def __init__(
        self,
        evaluator: Evaluator[WrittenT, ExampleT, OutputT],
        train: Sequence[Item[ExampleT]],
        perfect: float,
        shown: int,
    ) -> None:
        self._evaluator = evaluator
        self._ledger = evaluator.ledger
        self._named = [(item.question.id, item) for item in train]
        self._perfect = perfect - 1e-9
        self._shown = shown
        self._hard: dict[str, float] = {}

    def tried(self, candidate: Candidate) -> list[Trajectory]:
        """What ``candidate`` did last at each training question that it was asked."""
        asked = self._ledger.means(candidate.id)
        items = (item for name, item in self._named if name in asked)
        return [self._evaluator.trajectory(candidate, item) for item in items]

    def failures(
        self, candidate: Candidate, likely: float, stale: int, rng: random.Random
    ) -> list[Item[ExampleT]]:
        """Training questions that ``candidate`` fails; none when it fails none at all.

        A failure that may be chance is looked at twice.

        Args:
            candidate: whose failures.
            likely: how likely it fails a question that nobody was asked.
            stale: iterations without progress; from time to time they call for other failures than
                the known ones, which may be hopeless.
            rng: chooses among equals.
        """
        wanted = self._shown + stale // 3
        asked = self._ledger.means(candidate.id)
        fresh = [item for name, item in self._named if name not in asked]
        rng.shuffle(fresh)
        fresh.sort(key=lambda item: self._hard.get(item.question.id, likely), reverse=True)
        spent = 0
        while True:
            found = self._failed(candidate)
            unsure = [
                item
                for item in found
                if self._ledger.doubtful
                and self._ledger.count(candidate.id, item.question.id) < self._ledger.looks
            ]
            sure = [item for item in found if item not in unsure] if unsure else found
            missing = wanted - len(sure)
            if missing <= 0 or (sure and spent >= self._shown) or not (unsure or fresh):
                break
            if unsure:
                self._measure(candidate, unsure[:missing], again=True)
            else:
                block, fresh = fresh[:missing], fresh[missing:]
                spent += len(block)
                self._measure(candidate, block)
        return rng.sample(sure, min(self._shown, len(sure)))

    def successes(
        self, items: Sequence[Item[ExampleT]], born: Mapping[str, Candidate], component: str
    ) -> list[Trajectory]:
        """For each of ``items`` how it went well under the latest text that never fails it, if any.

        Args:
            items: questions.
            born: all candidates by id.
            component: the one that is read, where components have readings of their own.
        """
        found: list[Trajectory] = []
        for item in items:
            name = item.question.id
            for one in list(self._ledger.front(name))[-1:]:
                if self._ledger.means(one)[name] >= self._perfect:
                    found.append(self._evaluator.trajectory(born[one], item, component))
        return found

    def where_better(self, one: str, other: str) -> list[Item[ExampleT]]:
        """Training questions at which ``one`` did better than ``other``, as many as are shown."""
        mine, theirs = self._ledger.means(one), self._ledger.means(other)
        found = [
            item for name, item in self._named if mine.get(name, -1e100) > theirs.get(name, 1e100)
        ]
        return found[: self._shown]

    def _failed(self, candidate: Candidate) -> list[Item[ExampleT]]:
        """Questions failed every time: of the others nobody knows what went wrong."""
        means = self._ledger.means(candidate.id)
        return [
            item
            for name, item in self._named
            if means.get(name, self._perfect) < self._perfect
            and max(self._ledger.samples(candidate.id, name)) < self._perfect
        ]

    def _measure(
        self, candidate: Candidate, items: Sequence[Item[ExampleT]], again: bool = False
    ) -> None:
        self._evaluator.measure(candidate, items, again)
        means = self._ledger.means(candidate.id)
        for item in items:
            name = item.question.id
            failed = float(means.get(name, 0.0) < self._perfect)
            before = self._hard.get(name, failed)
            self._hard[name] = before + _RECENT * (failed - before)
