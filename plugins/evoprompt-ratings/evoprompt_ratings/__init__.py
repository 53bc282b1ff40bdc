"""Skill ratings from the ranks that candidates take in each step, as E-SPL has them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from openskill.models import ThurstoneMostellerFull
from pydantic import BaseModel, Field

from evoprompt import (
    Attributor,
    Candidate,
    CandidateStats,
    Component,
    Trajectory,
    hookimpl,
)

Skill = tuple[float, float]
"""Mean and standard error."""

_MODEL = ThurstoneMostellerFull(epsilon=0.1256613468550741 * math.sqrt(2) * 25 / 6)
"""TrueSkill's usual numbers: equals draw in a tenth of their games."""
_WIDER = 1.0  # standard deviation that a mutation or crossover adds to what is known of parents
_MOST_PAST = 1024  # ratings of the dead that are remembered for children not yet met


class _Known(BaseModel, extra="forbid"):
    """What is known before the step that is being told, and what was told of that step.

    Attributes:
        ratings: of the living, before that step.
        past: of the dead, the oldest first.
        groups: of each candidate so far.
        step: the one that is being told.
        rewards: of it.
        parents: of those who are in it.
        assignments: of it.
    """

    ratings: dict[str, Skill] = {}
    past: dict[str, Skill] = {}
    groups: dict[str, int] = {}
    step: int | None = None
    rewards: dict[str, list[float]] = {}
    parents: dict[str, list[str]] = {}
    assignments: set[str] = set()


class Rating(Attributor):
    """Skill ratings from the ranks in each step (E-SPL); engine.preset: espl has the rest.

    Importance weight = mean of a skill rating; its standard error is the rating's. Each step is a
    game between all candidates that it has rewards of: they are ranked by their mean reward, and
    draw where two that follow each other differ by at most ``tie``. The game makes the ratings more
    certain or moves them. A candidate that was not in a game yet is known by its parents: their
    mean by precision, a little less certain. Weights are on the scale of ratings, which start at 25
    ± 8.3, and not on that of rewards.

    Ranks compare best where all were asked the same questions: ``candidates_per_question`` above 1.
    The cost of a step grows with the square of the candidates in it.

    Source: E-SPL (arXiv 2602.14697) and the numbers of its code. It updates TrueSkill ratings by
    expectation propagation; this is Weng and Lin's approximation (JMLR 12, 2011, algorithm 3), of
    the library openskill. For two candidates the means are the same.

    Args:
        tie: rewards, at least 0.
    """

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        tie: float = Field(
            0.01, ge=0, allow_inf_nan=False, description="rewards that differ by no more are a draw"
        )

    def __init__(self, tie: float = 0.01) -> None:
        if not 0 <= tie < math.inf:
            raise ValueError(f"tie is {tie}; required: a finite difference of rewards, at least 0")
        self.tie = tie
        self._known = _Known()
        self._now: dict[str, Skill] | None = None  # ratings with the step that is being told

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        if self._known.step != step:
            self._close()
            self._known.step = step
        for told in trajectories:
            if told.reward is None:
                continue
            name = told.candidate.id
            self._known.rewards.setdefault(name, []).append(told.reward)
            self._known.parents[name] = list(told.candidate.parents)
            new = told.assignment.id not in self._known.assignments
            self._known.groups[name] = self._known.groups.get(name, 0) + new
            self._known.assignments.add(told.assignment.id)
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
        return CandidateStats(candidate, mean, error, self._known.groups.get(candidate.id, 0))

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forgets everything; what is given are the rewards of a first game."""
        self._known, self._now = _Known(), None
        self._known.rewards = {name: list(rewards) for name, rewards in priors.items() if rewards}
        self._known.groups = {name: len(rewards) for name, rewards in self._known.rewards.items()}

    def forget(self, ids: Collection[str]) -> None:
        """Drops what is known about candidates that are no longer alive."""
        self._close()
        for name in ids:
            self._known.groups.pop(name, None)
            if rating := self._known.ratings.pop(name, None):
                self._known.past[name] = rating
        while len(self._known.past) > _MOST_PAST:
            del self._known.past[next(iter(self._known.past))]

    def _inherited(self, parents: Sequence[str], ratings: Mapping[str, Skill]) -> Skill:
        """The rating that a child of ``parents`` starts with, in view of ``ratings``."""
        found = [ratings.get(name) or self._known.past.get(name) for name in parents]
        known = [rating for rating in found if rating]
        if not known:
            return _MODEL.mu, _MODEL.sigma
        precision = math.fsum(1 / error**2 for _, error in known)
        mean = math.fsum(mean / error**2 for mean, error in known) / precision
        return mean, math.sqrt(1 / precision + _WIDER**2)

    def _rated(self) -> dict[str, Skill]:
        """All ratings with the step that is being told."""
        if self._now is not None:
            return self._now
        means = {name: math.fsum(found) / len(found) for name, found in self._known.rewards.items()}
        ranking = sorted(means, key=lambda name: (-means[name], name))
        before = {
            name: self._known.ratings.get(name)
            or self._inherited(self._known.parents.get(name, ()), self._known.ratings)
            for name in ranking
        }
        self._now = {**self._known.ratings, **before}
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
        self._known.ratings = self._rated()
        self._known.step = self._now = None
        self._known.rewards, self._known.parents, self._known.assignments = {}, {}, set()

    def state_dict(self) -> dict[str, Any]:
        """Everything that is known, as JSON values."""
        state = self._known.model_dump(mode="json")
        return {**state, "assignments": sorted(self._known.assignments)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from ``state``."""
        self._known, self._now = _Known.model_validate(state), None


@hookimpl
def evoprompt_components() -> list[type[Component]]:
    """The attributor ``rating``."""
    return [Rating]
