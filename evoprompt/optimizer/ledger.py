"""Every reward that was ever measured: the cache, the noise, and who is best at each question."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass

SURE = 8
"""Repeated rollouts that must all agree before rewards count as free of chance."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one candidate did than another on the questions that both were asked.

    Attributes:
        total: sum of the differences of their mean rewards.
        variance: of ``total``; 0 where rewards repeat themselves, for then nothing is chance.
        questions: that both were asked.
    """

    total: float
    variance: float
    questions: int

    def beyond(self, errors: float) -> bool:
        """Whether it is greater than ``errors`` standard errors, which may be negative."""
        return self.total > errors * math.sqrt(self.variance) + math.copysign(1e-12, errors)


def _spread(gains: Sequence[float]) -> float:
    """Variance of the sum of ``gains``, were other questions chosen; 0 below two."""
    count = len(gains)
    if count < 2:
        return 0.0
    mean = math.fsum(gains) / count
    return math.fsum((gain - mean) ** 2 for gain in gains) * count / (count - 1)


class Ledger:
    """Rewards by candidate and question; a frozen policy never makes one of them stale.

    Adding a reward costs the same however many candidates there are: the front of a question is
    looked through again only when one of those on it falls.

    Attributes:
        sure: repeated rollouts that must all agree before rewards count as free of chance.
        looks: rollouts of a question after which a failure is held to be no chance.
    """

    def __init__(self) -> None:
        self._samples: defaultdict[str, dict[str, list[float]]] = defaultdict(dict)
        self._means: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._asked: defaultdict[str, set[str]] = defaultdict(set)
        self._fronts: dict[str, dict[str, None]] = {}
        self._squares = 0.0
        self._repeats = 0
        self.doubt(0)

    def doubt(self, stale: int) -> None:
        """Trusts rewards the less the more iterations have brought nothing; luck may be why."""
        self.sure = SURE + 2 * stale
        self.looks = 2 + stale // 5

    def add(self, candidate: str, question: str, reward: float) -> None:
        """Takes note of one more rollout."""
        samples = self._samples[candidate].setdefault(question, [])
        before = self._means[candidate].get(question)
        samples.append(reward)
        # The mean of three times 2/9 is not 2/9; that would be taken for luck ever after.
        if before is not None and math.isclose(reward, before, rel_tol=1e-9, abs_tol=1e-12):
            mean = reward = before
        else:
            mean = sum(samples) / len(samples)
        self._means[candidate][question] = mean
        self._asked[question].add(candidate)
        if before is not None:
            self._repeats += 1
            self._squares += (reward - before) * (reward - mean)
        self._update_front(candidate, question, mean, before)

    def samples(self, candidate: str, question: str) -> Sequence[float]:
        """Every reward of ``candidate`` at ``question``, oldest first."""
        return self._samples[candidate].get(question, ())

    def count(self, candidate: str, question: str) -> int:
        """How often ``candidate`` was asked ``question`` and scored."""
        return len(self._samples[candidate].get(question, ()))

    def means(self, candidate: str) -> Mapping[str, float]:
        """Mean reward by question."""
        return self._means[candidate]

    def mean(self, candidate: str, questions: Iterable[str]) -> tuple[float, float, int]:
        """Mean reward on those of ``questions`` that were asked, its standard error, their number.

        The mean is NaN where none was asked, and the error infinite below two.
        """
        mine = self._means[candidate]
        values = [mine[question] for question in questions if question in mine]
        if not values:
            return math.nan, math.inf, 0
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return mean, math.inf, 1
        spread = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
        return mean, math.sqrt(spread / len(values)), len(values)

    @property
    def noise(self) -> float:
        """Variance of the reward of one rollout, the candidate and the question being the same."""
        return self._squares / self._repeats if self._squares else 0.0

    @property
    def doubtful(self) -> bool:
        """Whether a reward may be chance: one has differed, or too few were repeated to know."""
        return self._repeats < self.sure or self._squares > 0

    def difference(self, one: str, other: str, questions: Iterable[str]) -> Difference:
        """How much better ``one`` did than ``other`` on those of ``questions`` that both know."""
        shared, gains = self._gains(one, other, questions)
        total = math.fsum(gains)
        noise = self.noise
        if not noise or not shared:
            return Difference(total, 0.0, len(shared))
        expected = noise * sum(1 / self.count(one, q) + 1 / self.count(other, q) for q in shared)
        return Difference(total, max(expected, _spread(gains)), len(shared))

    def sampled(self, one: str, other: str, questions: Iterable[str]) -> Difference:
        """The same, where chance is in the choice of the questions, even if rewards repeat."""
        _, gains = self._gains(one, other, questions)
        return Difference(math.fsum(gains), _spread(gains), len(gains))

    def loses_somewhere(self, one: str, other: str) -> bool:
        """Whether ``one`` did worse than ``other`` at any question that both were asked."""
        mine, theirs = self._means[one], self._means[other]
        return any(mine[name] < theirs[name] - 1e-12 for name in mine if name in theirs)

    def _gains(
        self, one: str, other: str, questions: Iterable[str]
    ) -> tuple[list[str], list[float]]:
        """Those of ``questions`` that both know, and how much better ``one`` did at each."""
        mine, theirs = self._means[one], self._means[other]
        shared = [question for question in questions if question in mine and question in theirs]
        return shared, [mine[question] - theirs[question] for question in shared]

    def front(self, question: str) -> KeysView[str]:
        """Who did best at ``question``, in the order in which they came to be."""
        return self._fronts.get(question, {}).keys()

    def beaten_at(self, candidate: str) -> list[str]:
        """The questions at which another one did better than ``candidate``, who was asked them."""
        asked = self._means[candidate]
        return [question for question in asked if candidate not in self._fronts[question]]

    def _update_front(
        self, candidate: str, question: str, mean: float, before: float | None
    ) -> None:
        front = self._fronts.setdefault(question, {})
        if candidate in front and before is not None and mean < before:
            best = max(self._means[one][question] for one in self._asked[question])
            front.clear()
            front.update(
                (one, None)
                for one in sorted(self._asked[question])
                if self._means[one][question] == best
            )
            return
        other = next((one for one in front if one != candidate), None)  # they all did as well
        best = -math.inf if other is None else self._means[other][question]
        if mean > best:
            front.clear()
        if mean >= best:
            front[candidate] = None
