"""The texts that were tried, as parents beside the incumbent."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence

from evoprompt.optimizer.results import RewardTable
from evoprompt.types import Candidate

BRANCH_AFTER = 10
"""Iterations without progress after which every second parent is another member. With 0,
*graded*, *shuffle* and *chaotic* took more rollouts, and with 5 *graded* and *chaotic*
(docs/notes/2026-11-28-frozen-several-texts.md).
"""
_MAX_FRUITLESS = 20
"""Requests in a row that brought no better text, after which a parent is exhausted.

With 10, a writer that helps once in ten requests left good parents (*90 % harmful* 1.000 -> .942);
with 30, *trap* took a tenth more requests (docs/notes/2026-11-29-frozen-lineages.md).
"""


class TextPopulation:
    """Population of texts, from which parents are drawn where the incumbent brings nothing new.

    A member has a greater reward than the incumbent on at least one question that both have
    rewards for. If there is no such text and the incumbent is exhausted, the members are seeds and
    earlier incumbents; if these are exhausted, texts that tied with their parent on the failures
    that the proposer read.

    Args:
        results: has the rewards.
    """

    def __init__(self, results: RewardTable) -> None:
        self._results = results
        self._candidates: dict[str, Candidate] = {}
        self._incumbents: set[str] = set()
        self._tied: set[str] = set()
        self._num_fruitless: defaultdict[str, int] = defaultdict(int)
        self._improved: defaultdict[str, list[Candidate]] = defaultdict(list)

    def add_incumbent(self, candidate: Candidate) -> None:
        """Add a seed or an incumbent."""
        self.add(candidate)
        self._incumbents.add(self._results.digest(candidate))

    def add(self, candidate: Candidate, has_tied: bool = False) -> None:
        """Add a candidate; the first one with the same texts represents it.

        Args:
            candidate: a text that was tried.
            has_tied: whether it tied with its parent on the failures that the proposer read.
        """
        digest = self._results.digest(candidate)
        self._candidates.setdefault(digest, candidate)
        if has_tied:
            self._tied.add(digest)

    def record_children(self, parent: Candidate, improved: Sequence[Candidate]) -> None:
        """Record what a request brought.

        Args:
            parent: the parent of the new texts.
            improved: those that are better than ``parent`` on its failures.
        """
        digest = self._results.digest(parent)
        self._num_fruitless[digest] = 0 if improved else self._num_fruitless[digest] + 1
        self._improved[digest].extend(improved)

    def choose_parent(self, incumbent: Candidate, stale: int, rng: random.Random) -> Candidate:
        """Return the parent of the next proposals.

        It is the incumbent while all rewards are the same, as nothing distinguishes the texts.

        Args:
            incumbent: the best text so far.
            stale: iterations without progress.
            rng: for the draw.
        """
        if stale < BRANCH_AFTER or stale % 2 or self._results.rewards.is_flat:
            return incumbent
        candidates = {
            digest: candidate
            for digest, candidate in self._candidates.items()
            if digest != self._results.digest(incumbent) and not self._is_exhausted(candidate)
        }
        if parent := self._draw_better([*candidates.values()], incumbent, rng):
            return parent
        if self._is_exhausted(incumbent):
            for digests in (self._incumbents, self._tied):
                if spares := [candidates[digest] for digest in candidates if digest in digests]:
                    return rng.choice(spares)
        return incumbent

    def _is_exhausted(self, parent: Candidate) -> bool:
        return self._num_fruitless[self._results.digest(parent)] >= _MAX_FRUITLESS

    def _draw_better(
        self, candidates: Sequence[Candidate], incumbent: Candidate, rng: random.Random
    ) -> Candidate | None:
        """Return the candidate with the greatest reward on a question the incumbent is behind on.

        It is None if the incumbent is behind on no question. Of several candidates with the same
        reward there, it is the one with the greatest lead over the incumbent on all questions that
        both have rewards for. Its latest improvement that keeps the reward there takes its place:
        an improvement has few rewards, so it would seldom be drawn itself.
        """
        results = self._results
        rewards = results.means(incumbent)
        gains = {
            candidate.id: results.gains(candidate, incumbent, rewards) for candidate in candidates
        }
        questions = sorted({name for names in gains.values() for name in names})
        if not questions:
            return None
        question = rng.choice(questions)
        holders = [candidate for candidate in candidates if question in gains[candidate.id]]
        ranks = {
            candidate.id: (
                round(results.means(candidate)[question], 9),
                round(results.lead(candidate, incumbent, rewards).value, 9),
            )
            for candidate in holders
        }
        best = max(ranks.values())
        chosen = rng.choice([holder for holder in holders if ranks[holder.id] == best])
        return self._latest_improvement(chosen, question)

    def _latest_improvement(self, parent: Candidate, question: str) -> Candidate:
        """Return the end of a line of improvements, of which none loses reward at ``question``."""
        results = self._results
        line = {results.digest(parent)}
        while True:
            reward = results.means(parent)[question] - 1e-9
            for child in reversed(self._improved[results.digest(parent)]):
                if results.digest(child) in line or self._is_exhausted(child):
                    continue
                results.measure([(child, results.items[question])])
                if results.means(child).get(question, -math.inf) >= reward:
                    break
            else:
                return parent
            line.add(results.digest(child))
            parent = child
