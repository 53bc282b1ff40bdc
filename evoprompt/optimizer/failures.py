"""Choice of training questions to learn from: a candidate fails them, or is likely to."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from evoprompt.log.corpus import RolloutCorpus
from evoprompt.optimizer.data import Item
from evoprompt.optimizer.results import RewardTable
from evoprompt.types import Candidate, Trajectory

SHOWN = 3
"""Failures that the proposer sees."""


class FailureFinder:
    """Finder of failures of a candidate with few rollouts: known ones first, then likely ones.

    Args:
        results: makes the rollouts.
        train: the training set.
        perfect: the greatest reward there is; anything less is a failure.
    """

    def __init__(self, results: RewardTable, train: Sequence[Item], perfect: float) -> None:
        self._results = results
        self._train = train
        self._perfect = perfect - 1e-9
        self._hard: dict[str, bool] = {}  # whether the latest candidate with a rollout has failed
        self._solved: dict[str, Candidate] = {}  # the latest candidate that was right

    def find(self, candidate: Candidate, stale: int, rng: random.Random) -> list[Item]:
        """Return training questions that ``candidate`` fails every time; none if it fails none.

        Failures that may be chance are measured twice.

        Args:
            candidate: the candidate.
            stale: iterations without progress; the more there are, the more failures are searched
                for, as the known ones may be hopeless.
            rng: random generator of the choice.
        """
        num_wanted = SHOWN + stale // 3
        means = self._results.means(candidate)
        unmeasured = [item for item in self._train if item.question.id not in means]
        rng.shuffle(unmeasured)
        unmeasured.sort(key=lambda item: self._hard.get(item.question.id, 0.5), reverse=True)
        num_measured = 0
        while True:
            failed_items = [
                item
                for item in self._train
                if self._results.always_fails(candidate, item.question.id, self._perfect)
            ]
            doubtful_items = [
                item
                for item in failed_items
                if self._results.is_doubtful
                and self._results.count(candidate, item.question.id) < 2
            ]
            certain_items = [item for item in failed_items if item not in doubtful_items]
            num_missing = num_wanted - len(certain_items)
            if (
                num_missing <= 0
                or (certain_items and num_measured >= SHOWN)
                or not (doubtful_items or unmeasured)
            ):
                return rng.sample(certain_items, min(SHOWN, len(certain_items)))
            if doubtful_items:
                items_to_repeat = doubtful_items[:num_missing]
                self._results.measure(((candidate, item) for item in items_to_repeat), again=True)
            else:
                # as many as are likely to have the missing failures; exact with one at a time
                num_likely = math.ceil(num_missing * (len(means) + 2) / (len(failed_items) + 1))
                batch_size = min(max(num_likely, num_missing), self._results.at_once)
                batch, unmeasured = unmeasured[:batch_size], unmeasured[batch_size:]
                num_measured += len(batch)
                self._results.measure((candidate, item) for item in batch)
                self.record_items(candidate, batch)

    def corpus(self, candidates: Sequence[Candidate]) -> RolloutCorpus:
        """Return the latest training rollouts of ``candidates``, oldest candidate first.

        Those of the validation set stay unread, as they decide which candidate is the best.
        """
        return RolloutCorpus(self.trajectories(candidates), self._perfect)

    def record_items(self, candidate: Candidate, items: Sequence[Item]) -> None:
        """Record which of ``items`` are hard, and that ``candidate`` solved the remaining ones."""
        means = self._results.means(candidate)
        for item in items:
            name = item.question.id
            self._hard[name] = means.get(name, 0.0) < self._perfect
            if not self._hard[name]:
                self._solved[name] = candidate

    def trajectories(self, candidates: Sequence[Candidate]) -> list[Trajectory]:
        """Return the latest trajectory of each candidate on each training question it has tried."""
        return [
            self._results.trajectory(candidate, item)
            for candidate in candidates
            for item in self._train
            if item.question.id in self._results.means(candidate)
        ]

    def repeated_failures(
        self, candidate: Candidate, items: Sequence[Item], component: str
    ) -> list[Trajectory]:
        """Return the trajectories of ``candidate`` on those ``items`` that it fails every time.

        Args:
            candidate: a candidate other than the one that ``items`` were found for.
            items: questions.
            component: the component to read about, if components have separate readings.
        """
        return [
            self._results.trajectory(candidate, item, component)
            for item in items
            if self._results.always_fails(candidate, item.question.id, self._perfect)
        ]

    def successes(self, items: Sequence[Item], component: str) -> list[Trajectory]:
        """Return a successful trajectory for each of ``items`` that its latest solver never fails.

        Args:
            items: questions.
            component: the component to read about, if components have separate readings.
        """
        return [
            self._results.trajectory(solver, item, component)
            for item in items
            if (solver := self._solved.get(item.question.id)) is not None
            and self._results.means(solver)[item.question.id] >= self._perfect
        ]
