"""What each candidate adds to the reward of a question: a Bayesian linear model over steps.

The mean reward of a group is ``level + effect[candidate] + difficulty[question] + noise``. The
level follows the policy as it learns. Effects have a common prior, to which they slowly return.
The difficulty of a question is shared by all who were asked it, so that a question asked under
several candidates compares them directly, at the same step or, when it comes again, with earlier
ones: what is told of effects then is what its rewards of all steps tell, less what those of earlier
steps told before. An update costs the same however long the history is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

DENSE = 128
"""Most candidates whose effects are estimated jointly; with more, each by itself."""

NOBODY = ""
"""Stands for candidates that are no longer compared."""

_MEMORY = 0.997  # of what rewards told of effects, per step
_NOISE_MEMORY = 0.98  # of the variances, per step
# In units of the rewards' variance:
_LEVEL_STEP = 0.1**2  # variance of the level's move per step; less lags behind a fast learner
_EFFECTS = 0.03 * 2.0 ** np.arange(-6, 7)  # variances of effects that are thought of,
_EFFECTS_GUESS = -0.5 * np.arange(-6.0, 7.0) ** 2  # and the log density of each of them
_USUAL = 6  # place in _EFFECTS of the likeliest one before any reward
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Groups:
    """The rewards of one step and what is remembered of its questions.

    One entry per question and candidate, for all that were asked one of its questions in this step
    or before. Every index of a question from 0 occurs; the index after the last candidate's stands
    for all who are no longer compared, whose effects are taken out of ``sums``.

    Attributes:
        question: index of the question, shape (groups,).
        candidate: index of the candidate, shape (groups,).
        count: scored rollouts of this step, shape (groups,).
        mean: mean of their rewards, 0 without one, shape (groups,).
        squares: sum of squared differences of their rewards from ``mean``, shape (groups,).
        earlier: scored rollouts of earlier steps that still count, shape (groups,).
        sums: of their rewards minus the level of their step, shape (groups,).
    """

    question: Indices
    candidate: Indices
    count: Floats
    mean: Floats
    squares: Floats
    earlier: Floats
    sums: Floats

    def per_question(self, values: Floats) -> Floats:
        """Sums of ``values`` over the groups of each question."""
        return np.bincount(self.question, values).astype(np.float64)

    def per_candidate(self, values: Floats, size: int) -> Floats:
        """Sums of ``values`` over the groups of each of ``size`` candidates."""
        return np.bincount(self.candidate, values, size + 1)[:size].astype(np.float64)

    def table(self, values: Floats, size: int) -> Floats:
        """``values``, 0 where there is no group, of shape (questions, ``size`` candidates)."""
        places = self.question * (size + 1) + self.candidate
        rows = int(self.question.max()) + 1
        table = np.bincount(places, values, rows * (size + 1)).reshape(rows, size + 1)
        return table[:, :size].astype(np.float64)

    def remembered(self, level: float) -> tuple[Floats, Floats]:
        """What ``earlier`` and ``sums`` are after this step, whose level was ``level``."""
        return self.earlier + self.count, self.sums + self.count * (self.mean - level)


@dataclass(frozen=True, slots=True)
class Noise:
    """Sums of past steps behind the variances of rewards; old steps count less and less.

    Attributes:
        squares: squared differences of rewards from the mean of their question.
        freedom: degrees of freedom of ``squares``.
        offsets: squared differences of the means of questions from the level.
        inverses: 1 / rollouts, over the questions.
        questions: number of questions.
    """

    squares: float = 0.0
    freedom: float = 0.0
    offsets: float = 0.0
    inverses: float = 0.0
    questions: float = 0.0

    @property
    def variances(self) -> tuple[float, float]:
        """Of a reward about the mean of its question, and of the difficulty of questions."""
        offsets = self.offsets / self.questions if self.questions else 0.0
        inverse = self.inverses / self.questions if self.questions else 1.0
        # With one rollout per question only the sum of the two can be known.
        reward = self.squares / self.freedom if self.freedom else offsets / 2
        least = max(reward, offsets) * 1e-3 + _TINY
        return max(reward, least), max(offsets - reward * inverse, least)

    def after(self, groups: Groups, effects: Floats, level: float) -> Noise:
        """With one more step; ``effects`` are those of the candidates of ``groups``."""
        plain = groups.mean - effects
        count = groups.per_question(groups.count)
        centre = groups.per_question(groups.count * plain) / count
        squares = groups.squares + groups.count * (plain - centre[groups.question]) ** 2
        return Noise(
            self.squares * _NOISE_MEMORY + float(squares.sum()),
            self.freedom * _NOISE_MEMORY + float((count - 1).sum()),
            self.offsets * _NOISE_MEMORY + float(((centre - level) ** 2).sum()),
            self.inverses * _NOISE_MEMORY + float((1 / count).sum()),
            self.questions * _NOISE_MEMORY + len(count),
        )


@dataclass(frozen=True, slots=True)
class Belief:
    """What is known of the level and of the effects of candidates.

    Attributes:
        level: expected reward of a question under a candidate of average effect.
        level_variance: of it; infinite before the first step.
        information: what the rewards say about the effects, as a precision matrix of shape
            (candidates, candidates); with more than ``DENSE`` candidates its diagonal, shape
            (candidates,).
        evidence: ``information`` times the effects that fit the rewards best, shape (candidates,).
        noise: of rewards and questions.
    """

    level: float = 0.0
    level_variance: float = math.inf
    information: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    evidence: Floats = field(default_factory=lambda: np.zeros(0))
    noise: Noise = field(default_factory=Noise)

    @property
    def joint(self) -> bool:
        """Whether effects are estimated together."""
        return self.information.ndim == 2

    def estimate(self) -> Estimate:
        """The effects as they are most likely, and how sure that is.

        They are taken to come from a normal distribution about 0, whose variance is the likeliest
        one in view of the rewards and of a guess (empirical Bayes).
        """
        if not len(self.evidence):
            return Estimate(np.zeros(0), np.zeros(0))
        if self.joint:
            scales, axes = np.linalg.eigh(self.information)
            scales = np.maximum(scales, 0.0)
            pulls = axes.T @ self.evidence
        else:
            scales, pulls = self.information, self.evidence
        variance = self._effects_variance(scales, pulls)
        shrunk = variance / (1 + variance * scales)
        if not self.joint:
            return Estimate(shrunk * pulls, np.sqrt(shrunk))
        covariance = (axes * shrunk) @ axes.T
        means = covariance.mean(axis=0)
        alone = len(means) == 1  # and its own mean
        spread = np.diag(covariance) - (0 if alone else 2 * means - means.mean())
        return Estimate(axes @ (shrunk * pulls), np.sqrt(np.maximum(spread, 0.0)))

    def difference(self, one: int, other: int) -> tuple[float, float]:
        """Of two candidates' effects, by the rewards alone, and its standard deviation.

        The latter is infinite where no reward tells them apart.
        """
        contrast = np.zeros(len(self.evidence))
        contrast[one], contrast[other] = 1.0, -1.0
        if not self.joint:
            if not self.information[[one, other]].all():
                return 0.0, math.inf
            apart = contrast / np.where(contrast, self.information, 1.0)
        else:
            apart = np.linalg.pinv(self.information, _TINY, hermitian=True) @ contrast
            if not np.allclose(self.information @ apart, contrast, atol=1e-6):
                return 0.0, math.inf
        return float(apart @ self.evidence), math.sqrt(float(apart @ contrast))

    def _effects_variance(self, scales: Floats, pulls: Floats) -> float:
        """Where the posterior density of the variance is greatest; uncorrelated axes are given."""
        rewards = sum(self.noise.variances)
        variances = rewards * _EFFECTS[:, None]
        evidence = pulls**2 * variances / (1 + variances * scales)
        fit = (evidence - np.log1p(variances * scales)).sum(axis=1) / 2
        return float(variances[np.argmax(fit + _EFFECTS_GUESS), 0])

    def with_candidates(self, count: int) -> Belief:
        """With ``count`` more candidates, of which nothing is known."""
        size = len(self.evidence)
        evidence = np.concatenate([self.evidence, np.zeros(count)])
        diagonal = np.diag(self.information) if self.joint else self.information
        information = np.concatenate([diagonal, np.zeros(count)])
        if len(evidence) <= DENSE:
            information = np.diag(information)
            if self.joint:
                information[:size, :size] = self.information
        return replace(self, information=information, evidence=evidence)

    def without_candidates(self, dropped: Indices) -> Belief:
        """Without the candidates of the given indices; what they told of the others stays."""
        kept = np.delete(np.arange(len(self.evidence)), dropped)
        information, evidence = self.information[kept], self.evidence[kept]
        if self.joint:
            rewards = sum(self.noise.variances) + _TINY
            own = self.information[np.ix_(dropped, dropped)]
            known = own + np.eye(len(dropped)) / (_EFFECTS[_USUAL] * rewards)
            across = self.information[np.ix_(kept, dropped)]
            evidence = evidence - across @ np.linalg.solve(known, self.evidence[dropped])
            information = information[:, kept] - across @ np.linalg.solve(known, across.T)
        return replace(self, information=information, evidence=evidence)

    def after(self, steps: int, groups: Groups) -> Belief:
        """What is known after one more step.

        Args:
            steps: since the last one.
            groups: what the step brought, and what earlier ones told of its questions.
        """
        first = math.isinf(self.level_variance)
        level = float(np.average(groups.mean, weights=groups.count)) if first else self.level
        size = len(self.evidence)
        before = np.append(self.estimate().effects, 0.0)[groups.candidate]
        noise = self.noise.after(groups, before, level)
        reward, difficulty = noise.variances
        doubt = 10.0 if first else _LEVEL_STEP * steps
        level_variance = doubt * (reward + difficulty) + (0.0 if first else self.level_variance)

        new, old = groups.count / reward, groups.earlier / reward
        asked, both = groups.per_question(new), new + old
        whole = 1 / difficulty + groups.per_question(both)
        whole_before = 1 / difficulty + groups.per_question(old)

        def told(effects: Floats) -> tuple[Floats, float]:
            """What the step adds, difficulties integrated out, beside given ``effects``.

            Per candidate, and of the level.
            """
            past = groups.sums / reward - old * effects
            present = new * (groups.mean - level - effects)
            expected = groups.per_question(past + present) / whole
            expected_before = groups.per_question(past) / whole_before
            by_group = present - both * expected[groups.question]
            by_group += old * expected_before[groups.question]
            of_level = groups.per_question(present) - asked * expected
            return groups.per_candidate(by_group, size), float(of_level.sum())

        known_of_level = 1 / level_variance + float((asked * (1 - asked / whole)).sum())
        on_level = groups.per_candidate(new - both * (asked / whole)[groups.question], size)
        if self.joint:
            information = np.diag(groups.per_candidate(new, size))
            for precision, sum_of, sign in ((both, whole, -1.0), (old, whole_before, 1.0)):
                weights = groups.table(precision, size)
                information += sign * weights.T @ (weights / sum_of[:, None])
            information -= np.outer(on_level, on_level) / known_of_level
            held = np.zeros(len(groups.count))
        else:  # each with the others held where they are
            information = groups.per_candidate(
                new - both**2 / whole[groups.question] + old**2 / whole_before[groups.question],
                size,
            )
            information -= on_level**2 / known_of_level
            held = before
        of_effects, of_level = told(held)
        evidence = of_effects - on_level * of_level / known_of_level
        if not self.joint:
            evidence += information * self.estimate().effects
        kept = _MEMORY**steps
        belief = replace(
            self,
            information=self.information * kept + information,
            evidence=self.evidence * kept + evidence,
            noise=noise,
        )
        after = np.append(belief.estimate().effects, 0.0)[groups.candidate]
        return replace(
            belief,
            level=level + told(after)[1] / known_of_level,
            level_variance=1 / known_of_level,
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """Effects of candidates, about a mean of 0.

    Attributes:
        effects: shape (candidates,).
        errors: standard deviations of their differences from the mean of all, shape (candidates,).
    """

    effects: Floats
    errors: Floats
