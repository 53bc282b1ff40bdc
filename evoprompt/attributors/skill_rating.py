"""Skill ratings from the ranks that candidates take in each step, as E-SPL has them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from openskill.models import ThurstoneMostellerFull
from pydantic import JsonValue, TypeAdapter

from evoprompt.attributors.sums import Sum, meet
from evoprompt.roles import Attributor
from evoprompt.types import Candidate, CandidateStats, Trajectory

_MODEL = ThurstoneMostellerFull(epsilon=0.1256613468550741 * math.sqrt(2) * 25 / 6)
"""TrueSkill's usual numbers: equals draw in a tenth of their games."""

_WIDER = (
    1.0  # standard deviation that a mutation or crossover adds to what its parents are known by
)
_MOST_PAST = 1024  # ratings of the dead that are remembered for children not yet met


@dataclass(slots=True)
class _Account:
    """What is counted for a candidate beside its rating."""

    groups: int = 0
    metrics: dict[str, Sum] = field(default_factory=dict)
    questions: OrderedDict[str, Sum] = field(default_factory=OrderedDict)


@dataclass(slots=True)
class _Saved:
    """Everything, as JSON has it."""

    ratings: dict[str, tuple[float, float]]
    past: list[tuple[str, float, float]]
    accounts: dict[str, _Account]
    step: int | None
    rewards: dict[str, list[float]]
    parents: dict[str, list[str]]
    assignments: list[str]


_SAVED = TypeAdapter(_Saved)


class Rating(Attributor):
    """Importance weight = mean of a skill rating; its standard error is the rating's.

    Each step is a game between all candidates that it has rewards of: they are ranked by their mean
    reward, and draw where two that follow each other differ by at most ``tie``. The game makes the
    ratings more certain or moves them. A candidate that was not in a game yet is known by its
    parents: their mean by precision, a little less certain. Weights are on the scale of ratings,
    which start at 25 ± 8.3, and not on that of rewards.

    Ranks compare best where all were asked the same questions: ``candidates_per_question`` above 1.
    The cost of a step grows with the square of the candidates in it.

    Source: E-SPL (arXiv 2602.14697) and the numbers of its code. It updates TrueSkill ratings by
    expectation propagation; this is Weng and Lin's approximation (JMLR 12, 2011, algorithm 3), of
    the library openskill. For two candidates the means are the same.

    Args:
        tie: rewards, at least 0.
    """

    def __init__(self, tie: float = 0.01) -> None:
        if not 0 <= tie < math.inf:
            raise ValueError(f"tie is {tie}; required: a finite difference of rewards, at least 0")
        self.tie = tie
        self._clear()

    def _clear(self) -> None:
        self._ratings: dict[str, tuple[float, float]] = {}  # before the step that is being told
        self._past: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._accounts: dict[str, _Account] = {}
        self._step: int | None = None
        self._rewards: dict[str, list[float]] = {}  # of the step that is being told
        self._parents: dict[str, list[str]] = {}  # of those who are in it
        self._assignments: set[str] = set()
        self._now: dict[str, tuple[float, float]] | None = None

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        if self._step != step:
            self._close()
            self._step = step
        scored = [trajectory for trajectory in trajectories if trajectory.reward is not None]
        for identity, rollouts in groupby(scored, key=lambda found: found.assignment.id):
            together = list(rollouts)
            question, candidate = together[0].question.id, together[0].candidate
            rewards = [found.reward for found in together if found.reward is not None]
            self._rewards.setdefault(candidate.id, []).extend(rewards)
            self._parents[candidate.id] = list(candidate.parents)
            account = self._accounts.setdefault(candidate.id, _Account())
            account.groups += identity not in self._assignments
            self._assignments.add(identity)
            meet(account.questions, question).add(rewards)
            for name in {name: None for found in together for name in found.metrics}:
                values = [found.metrics[name] for found in together if name in found.metrics]
                account.metrics.setdefault(name, Sum()).add(values)
        self._now = None

    def observe_verification(
        self,
        step: int,
        trajectories: Sequence[Trajectory],
        priors: Mapping[str, Sequence[float]],
    ) -> None:
        """Adds the rollouts of a verification to the game of the step before it."""
        self.observe(step, trajectories)

    def stats(self, candidate: Candidate) -> CandidateStats:
        """What is known about ``candidate``: that of its parents if it was in no game yet."""
        known = self._rated()
        mean, error = known.get(candidate.id) or self._inherited(candidate.parents, known)
        account = self._accounts.get(candidate.id, _Account())
        return CandidateStats(
            candidate,
            mean,
            error,
            account.groups,
            {name: value.mean for name, value in account.metrics.items()},
            {question: value.mean for question, value in account.questions.items()},
        )

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forgets everything; what is given are the rewards of a first game."""
        self._clear()
        self._rewards = {name: list(rewards) for name, rewards in priors.items() if rewards}
        self._accounts = {name: _Account(len(rewards)) for name, rewards in self._rewards.items()}

    def forget(self, ids: Collection[str]) -> None:
        """Drops what is known about candidates that are no longer alive."""
        self._close()
        for name in ids:
            self._accounts.pop(name, None)
            if rating := self._ratings.pop(name, None):
                self._past[name] = rating
        while len(self._past) > _MOST_PAST:
            self._past.popitem(last=False)

    def _inherited(
        self, parents: Sequence[str], ratings: Mapping[str, tuple[float, float]]
    ) -> tuple[float, float]:
        """The rating that a child of ``parents`` starts with, in view of ``ratings``."""
        found = [ratings.get(name) or self._past.get(name) for name in parents]
        known = [rating for rating in found if rating]
        if not known:
            return _MODEL.mu, _MODEL.sigma
        precision = math.fsum(1 / error**2 for _, error in known)
        mean = math.fsum(mean / error**2 for mean, error in known) / precision
        return mean, math.sqrt(1 / precision + _WIDER**2)

    def _rated(self) -> dict[str, tuple[float, float]]:
        """All ratings with the step that is being told."""
        if self._now is not None:
            return self._now
        means = {name: math.fsum(found) / len(found) for name, found in self._rewards.items()}
        ranking = sorted(means, key=lambda name: (-means[name], name))
        before = {
            name: self._ratings.get(name)
            or self._inherited(self._parents.get(name, ()), self._ratings)
            for name in ranking
        }
        self._now = {**self._ratings, **before}
        if len(ranking) > 1:
            ranks = [0.0]
            for better, worse in pairwise(ranking):
                ranks.append(ranks[-1] + (means[better] - means[worse] > self.tie))
            teams = [[_MODEL.rating(mu=m, sigma=s)] for m, s in before.values()]
            played = zip(ranking, _MODEL.rate(teams, ranks=ranks), strict=True)
            self._now |= {name: (team[0].mu, team[0].sigma) for name, team in played}
        return self._now

    def _close(self) -> None:
        """Goes on to the next step."""
        self._ratings = self._rated()
        self._step = self._now = None
        self._rewards, self._parents, self._assignments = {}, {}, set()

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything that is known, as JSON values."""
        saved = _Saved(
            self._ratings,
            [(name, *rating) for name, rating in self._past.items()],
            self._accounts,
            self._step,
            self._rewards,
            self._parents,
            sorted(self._assignments),
        )
        found: dict[str, JsonValue] = _SAVED.dump_python(saved, mode="json")
        return found

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        saved = _SAVED.validate_python(dict(state))
        self._clear()
        self._ratings, self._accounts = saved.ratings, saved.accounts
        self._past = OrderedDict((name, (mean, error)) for name, mean, error in saved.past)
        self._step, self._rewards = saved.step, saved.rewards
        self._parents, self._assignments = saved.parents, set(saved.assignments)
