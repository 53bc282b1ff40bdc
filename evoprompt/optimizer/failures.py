"""Which training questions to learn from: those that a candidate is known, or likely, to fail."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from evoprompt.optimizer.data import Item
from evoprompt.optimizer.results import Results
from evoprompt.types import Candidate, Trajectory

SHOWN = 3
"""Failures that the proposer sees."""


class FailureFinder:
    """Finds failures of a candidate with few rollouts: known ones first, then likely ones.

    Args:
        results: makes the rollouts.
        train: the training set.
        perfect: the greatest reward there is; anything less is a failure.
    """

    def __init__(self, results: Results, train: Sequence[Item], perfect: float) -> None:
        self._results = results
        self._train = train
        self._perfect = perfect - 1e-9
        self._hard: dict[str, bool] = {}  # whether the last one who was asked has failed
        self._solved: dict[str, Candidate] = {}  # who was right last

    def find(self, candidate: Candidate, stale: int, rng: random.Random) -> list[Item]:
        """Training questions that ``candidate`` fails every time; none when it fails none at all.

        Failures that may be chance are asked for twice. With ``stale`` iterations without progress
        others than the known ones are looked for, as these may be hopeless.
        """
        wanted = SHOWN + stale // 3
        asked = self._results.means(candidate)
        fresh = [item for item in self._train if item.question.id not in asked]
        rng.shuffle(fresh)
        fresh.sort(key=lambda item: self._hard.get(item.question.id, 0.5), reverse=True)
        spent = 0
        while True:
            found = [
                item
                for item in self._train
                if self._results.always_fails(candidate, item.question.id, self._perfect)
            ]
            unsure = [
                item
                for item in found
                if self._results.is_doubtful
                and self._results.count(candidate, item.question.id) < 2
            ]
            sure = [item for item in found if item not in unsure] if unsure else found
            missing = wanted - len(sure)
            if missing <= 0 or (sure and spent >= SHOWN) or not (unsure or fresh):
                return rng.sample(sure, min(SHOWN, len(sure)))
            if unsure:
                again = unsure[:missing]
                self._results.measure(((candidate, item) for item in again), again=True)
            else:
                # as many as are likely to hold what is missing; exact where they are asked singly
                likely = math.ceil(missing * (len(asked) + 2) / (len(found) + 1))
                wide = min(max(likely, missing), self._results.at_once)
                block, fresh = fresh[:wide], fresh[wide:]
                spent += len(block)
                self._results.measure((candidate, item) for item in block)
                self.note(candidate, block)

    def note(self, candidate: Candidate, items: Sequence[Item]) -> None:
        """Remembers which of ``items`` are hard, and who was right last."""
        means = self._results.means(candidate)
        for item in items:
            name = item.question.id
            self._hard[name] = means.get(name, 0.0) < self._perfect
            if not self._hard[name]:
                self._solved[name] = candidate

    def tried(self, candidate: Candidate) -> list[Trajectory]:
        """What ``candidate`` did last at each training question that it was asked."""
        asked = self._results.means(candidate)
        return [
            self._results.trajectory(candidate, item)
            for item in self._train
            if item.question.id in asked
        ]

    def again(
        self, candidate: Candidate, items: Sequence[Item], component: str
    ) -> list[Trajectory]:
        """How ``candidate`` fails those of ``items`` that it fails every time.

        Args:
            candidate: another one than whose failures ``items`` are.
            items: questions.
            component: the one that is read, where components have readings of their own.
        """
        return [
            self._results.trajectory(candidate, item, component)
            for item in items
            if self._results.always_fails(candidate, item.question.id, self._perfect)
        ]

    def successes(self, items: Sequence[Item], component: str) -> list[Trajectory]:
        """For each of ``items`` how it went well under the latest text that never fails it, if any.

        Args:
            items: questions.
            component: the one that is read, where components have readings of their own.
        """
        return [
            self._results.trajectory(who, item, component)
            for item in items
            if (who := self._solved.get(item.question.id)) is not None
            and self._results.means(who)[item.question.id] >= self._perfect
        ]
