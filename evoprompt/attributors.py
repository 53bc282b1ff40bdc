"""Attributors that ship with evoprompt: they estimate the weights of candidates from rewards."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, JsonValue, PlainSerializer, PlainValidator, TypeAdapter

from evoprompt.roles import Attributor
from evoprompt.support.leads import MIN_GROUPS, Lead, SentenceValue
from evoprompt.support.sentence_values import Floats, sentence_values
from evoprompt.types import Candidate, CandidateStats, Trajectory

__all__ = ["Adjusted", "WindowMean"]


HALF_LIFE = 60.0
"""Steps after which an observation counts half. With 30 *scaffold* ended at .860, with 60 and 120
at .957; *ladder* showed no difference (ten seeds, docs/notes/2026-11-28-one-method.md)."""

_MOST_QUESTIONS = 256  # per candidate; enough for case-by-case selection, bounded in memory


@dataclass(slots=True)
class _Sum:
    """A sum of ``count`` values."""

    total: float = 0.0
    count: int = 0

    def add(self, values: Sequence[float]) -> None:
        """Add ``values``, in any order."""
        # Rollouts of a group finish in any order, which the last digits must not depend on.
        self.total = math.fsum((self.total, *values))
        self.count += len(values)

    @property
    def mean(self) -> float:
        """Return the mean; there must be a value."""
        return self.total / self.count


def _without_rounding(value: float) -> float:
    """Return twelve digits of ``value``: candidates of equal rewards are not ranked by rounding."""
    return float(f"{value:.12g}")


@dataclass(slots=True)
class _Account:
    """Counts of a candidate beside its weight, since the last reset."""

    metrics: dict[str, _Sum] = field(default_factory=dict)
    questions: OrderedDict[str, _Sum] = field(default_factory=OrderedDict)

    def add(self, group: Sequence[Trajectory], rewards: Sequence[float]) -> None:
        """Count the scored rollouts ``group`` of one question, with their ``rewards``."""
        self.add_rewards(group[0].question.id, rewards)
        self.add_metrics(group)

    def add_rewards(self, question: str, rewards: Sequence[float]) -> None:
        """Count rewards of one question."""
        if question in self.questions:
            self.questions.move_to_end(question)
        else:
            self.questions[question] = _Sum()
        self.questions[question].add(rewards)
        if len(self.questions) > _MOST_QUESTIONS:
            self.questions.popitem(last=False)

    def add_metrics(self, trajectories: Sequence[Trajectory]) -> None:
        """Count the metrics of scored rollouts, which may come in any order."""
        metrics: dict[str, list[float]] = {}
        for trajectory in trajectories:
            for name, value in trajectory.metrics.items():
                if name in metrics:
                    metrics[name].append(value)
                else:
                    metrics[name] = [value]
        for name, values in metrics.items():
            self.metrics.setdefault(name, _Sum()).add(values)

    def stats(
        self, candidate: Candidate, weight: float, stderr: float, groups: int
    ) -> CandidateStats:
        """Return the estimates for a candidate."""
        return CandidateStats(
            candidate,
            _without_rounding(weight),
            stderr,
            groups,
            {name: value.mean for name, value in self.metrics.items()},
            {question: value.mean for question, value in self.questions.items()},
        )


def _by_assignment(
    trajectories: Sequence[Trajectory],
) -> Iterator[tuple[str, list[Trajectory], list[float]]]:
    """Yield the scored ones of ``trajectories`` by assignment, and their rewards."""
    identity, together, rewards = "", list[Trajectory](), list[float]()
    for trajectory in trajectories:
        if trajectory.reward is None:
            continue
        if together and trajectory.assignment.id != identity:
            yield identity, together, rewards
            together, rewards = [], []
        identity = trajectory.assignment.id
        together.append(trajectory)
        rewards.append(trajectory.reward)
    if together:
        yield identity, together, rewards


@dataclass(slots=True)
class _Step:
    """Rewards of one candidate at one step, by group."""

    step: int
    groups: dict[str, _Sum] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        total = math.fsum(group.total for group in self.groups.values())
        return total / sum(group.count for group in self.groups.values())


@dataclass(slots=True)
class _Window:
    """The last steps of one candidate."""

    steps: list[_Step] = field(default_factory=list)
    account: _Account = field(default_factory=_Account)


_WINDOWS = TypeAdapter(dict[str, _Window])


class WindowMean(Attributor):
    """Mean reward over the last steps a candidate was drawn at (paper Eq. 6).

    Importance weight = mean of the last ``window`` values of the step means. ``r_bar[t, j]`` is the
    mean reward of all trajectories of candidate ``j`` at step ``t``. The paper does not define the
    step mean where ``j`` was not drawn; here the window holds the last ``window`` steps at which
    ``j`` was drawn.

    Args:
        window: ``n`` of Eq. 6, in steps, at least 1.
    """

    class Settings(BaseModel, extra="forbid"):
        """Settings in a configuration."""

        window: int = Field(5, ge=1, description="n of Eq. 6, in steps")

    def __init__(self, window: int = 5) -> None:
        if window < 1:
            raise ValueError(f"window is {window}; required: at least 1 step")
        self.window = window
        self._windows: dict[str, _Window] = {}
        self._candidate_stats: dict[str, CandidateStats] = {}

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Record the rewards of the trajectories of engine step ``step``."""
        for identity, together, rewards in _by_assignment(trajectories):
            window = self._open(together[0].candidate.id, step)
            window.steps[-1].groups.setdefault(identity, _Sum()).add(rewards)
            window.account.add(together, rewards)

    def _open(self, candidate: str, step: int) -> _Window:
        """Return the window of a candidate, with room for step ``step``."""
        self._candidate_stats.pop(candidate, None)
        window = self._windows.setdefault(candidate, _Window())
        if not window.steps or window.steps[-1].step != step:
            window.steps.append(_Step(step))
            del window.steps[: -self.window]
        return window

    def stats(self, candidate: Candidate) -> CandidateStats:
        """Return the estimates for a candidate: weight 0 from 0 groups if it was never scored.

        The standard error treats groups as independent with one variance, pooled over the window;
        it is infinite below two groups.
        """
        stats = self._candidate_stats.get(candidate.id)
        if stats is None:
            window = self._windows.get(candidate.id)
            stats = self._candidate_stats[candidate.id] = (
                _summarise(candidate, window) if window else CandidateStats(candidate, 0.0)
            )
        return stats

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forget everything; start each named candidate with one step of the given rewards."""
        self._candidate_stats.clear()
        self._windows = {
            candidate: _Window(
                [_Step(-1, {f"prior{i}": _Sum(reward, 1) for i, reward in enumerate(rewards)})]
            )
            for candidate, rewards in priors.items()
            if rewards
        }

    def forget(self, ids: Collection[str]) -> None:
        """Drop the windows of pruned candidates."""
        for candidate in ids:
            self._windows.pop(candidate, None)
            self._candidate_stats.pop(candidate, None)

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the window of every candidate, as JSON values."""
        return {"windows": _WINDOWS.dump_python(self._windows, mode="json")}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``."""
        self._windows = _WINDOWS.validate_python(state["windows"])
        self._candidate_stats = {}


def _summarise(candidate: Candidate, window: _Window) -> CandidateStats:
    steps = window.steps
    return window.account.stats(
        candidate,
        math.fsum(step.mean for step in steps) / len(steps),
        _standard_error([[group.mean for group in step.groups.values()] for step in steps]),
        sum(len(step.groups) for step in steps),
    )


def _standard_error(steps: Sequence[Sequence[float]]) -> float:
    """Return the standard error of the mean over steps of group means with one common variance."""
    groups = [mean for step in steps for mean in step]
    if len(groups) < 2:
        return math.inf
    centre = math.fsum(groups) / len(groups)
    variance = math.fsum((mean - centre) ** 2 for mean in groups) / (len(groups) - 1)
    return math.sqrt(variance * math.fsum(1 / len(step) for step in steps)) / len(steps)


_PRIOR = "prior"
"""Id of the question whose rewards are the priors of a reset: the same one for all candidates."""
_RIDGE = 16.0
"""Rollouts at the average that count beside a candidate's own, and as many at the level before
beside those of a step. With 4 or 33 the best of seven was found no more often.
"""
_MAX_CANDIDATES = 128
"""Candidates in the equations, pruned ones included: 16,500 numbers of a checkpoint."""
_MAX_NUMBERS = 16_384
"""Numbers kept of single questions; the oldest questions are summed up beyond it."""
_ROUNDING = 1e-9  # of the greatest reward: smaller differences are none
_SINGULAR = 1e-10  # of the greatest number: a smaller one is 0
_TINY = 1e-12

_Array = Annotated[
    Floats,
    PlainValidator(lambda values: np.array(values, np.float64)),
    PlainSerializer(np.ndarray.tolist),
]


@dataclass
class _Equations:
    """Normal equations of a regression of rewards on candidates, within questions and steps.

    Attributes:
        names: ids of the n candidates, the latest at the end.
        information: left side of the equations, shape (n, n), in rollouts.
        evidence: right side of the equations, shape (n,), in units of the rewards.
        questions: ids of the q questions in ``scores``, the latest at the end.
        scores: score of each candidate at each question, shape (q, n).
        squares: sum of the outer products of scores that were dropped, shape (n, n).
        level: mean reward of the last steps under a candidate of average effect; None before one.
        residuals: sum of the squared residuals within questions and steps.
        freedom: degrees of freedom of ``residuals``.
    """

    names: list[str] = field(default_factory=list)
    information: _Array = field(default_factory=lambda: np.zeros((0, 0)))
    evidence: _Array = field(default_factory=lambda: np.zeros(0))
    questions: list[str] = field(default_factory=list)
    scores: _Array = field(default_factory=lambda: np.zeros((0, 0)))
    squares: _Array = field(default_factory=lambda: np.zeros((0, 0)))
    level: float | None = None
    residuals: float = 0.0
    freedom: float = 0.0

    def __post_init__(self) -> None:
        size = len(self.names)
        self.information = self.information.reshape(size, size)
        self.squares = self.squares.reshape(size, size)
        self.scores = self.scores.reshape(len(self.questions), size)

    @cached_property
    def places(self) -> dict[str, int]:
        """Return the index of each candidate."""
        return {name: index for index, name in enumerate(self.names)}

    @property
    def noise(self) -> float:
        """Return the variance of a reward about the mean of its question, above 0."""
        return self.residuals / max(self.freedom, 1.0) + _TINY

    @cached_property
    def covariance(self) -> Floats:
        """Return the covariance of the shrunk effects, in units of the noise."""
        matrix = self.information + _RIDGE * np.eye(len(self.names))
        return np.linalg.inv(matrix).astype(np.float64)

    @cached_property
    def effects(self) -> Floats:
        """Return the effect of each candidate, shrunk towards 0."""
        return self.covariance @ self.evidence

    def stderrs(self, active: Sequence[int]) -> Floats:
        """Return the standard errors of the effects of ``active`` about their mean."""
        block = self.covariance[np.ix_(active, active)]
        means = block.mean(axis=0)
        spread = np.diag(block) - (0 if len(active) == 1 else 2 * means - means.mean())
        return np.sqrt(np.maximum(spread, 0.0) * self.noise).astype(np.float64)

    def after(
        self,
        rewards: Mapping[str, Mapping[str, list[float]]],
        memory: float,
        extra: Collection[str] = (),
    ) -> _Equations:
        """Return the equations with one more step.

        Args:
            rewards: rewards of the step, by question and candidate.
            memory: factor of the earlier steps, from 0 to 1.
            extra: questions of a verification, which are no evidence of the level: they are
                replayed because they are hard or separate candidates.
        """
        new = sorted({name for cell in rewards.values() for name in cell})
        old = [name for name in self.names if name not in new]
        order = [self.places[name] for name in old] + [self.places.get(name, -1) for name in new]
        names = [*old, *new]
        equations = _Equations(
            names,
            memory * _rearranged(_rearranged(self.information, order).T, order).T,
            memory * _rearranged(self.evidence[None], order)[0],
            self.questions,
            memory * _rearranged(self.scores, order),
            memory**2 * _rearranged(_rearranged(self.squares, order).T, order).T,
            self.level,
            memory * self.residuals,
            memory * self.freedom,
        )
        shared = {question: cell for question, cell in rewards.items() if len(cell) > 1}
        alone = {question: cell for question, cell in rewards.items() if len(cell) == 1}
        values = [
            value
            for cell in rewards.values()
            for cell_rewards in cell.values()
            for value in cell_rewards
        ]
        rounding = _ROUNDING * max(map(abs, values))
        parts: list[tuple[list[str], Floats]] = []
        if shared:
            parts.append(equations._add_shared(shared, rounding))
        if len(alone) > 1:
            parts.append(equations._add_alone(alone, rounding))
        if parts:
            questions = [question for part, _ in parts for question in part]
            equations._keep(questions, np.vstack([scores for _, scores in parts]))
        equations._move_level(rewards, extra)
        return equations._within(_MAX_CANDIDATES)

    def _add_shared(
        self, cells: Mapping[str, Mapping[str, list[float]]], rounding: float
    ) -> tuple[list[str], Floats]:
        """Add questions that compare several candidates; return them and their scores."""
        questions = sorted(cells)
        counts, sums = np.zeros((2, len(questions), len(self.names)))
        squares = 0.0
        for row, question in enumerate(questions):
            for name, cell_rewards in cells[question].items():
                position = row, self.places[name]
                counts[position], sums[position] = len(cell_rewards), math.fsum(cell_rewards)
                squares += math.fsum(value * value for value in cell_rewards)
        totals = counts.sum(axis=1, keepdims=True)
        means = sums.sum(axis=1, keepdims=True) / totals
        scores = sums - counts * means
        scores[np.abs(scores) <= rounding] = 0.0
        self.information += np.diag(counts.sum(axis=0)) - (counts / totals).T @ counts
        self.evidence += scores.sum(axis=0)
        self.residuals += max(squares - float((totals * means**2).sum()), 0.0)
        self.freedom += float((totals - 1).sum())
        return questions, scores

    def _add_alone(
        self, cells: Mapping[str, Mapping[str, list[float]]], rounding: float
    ) -> tuple[list[str], Floats]:
        """Add questions that had one candidate each; return them and their scores.

        They are compared through the mean of the step.
        """
        questions = sorted(cells)
        size = len(questions)
        under = np.zeros((size, len(self.names)))
        rewards = np.zeros(size)
        for row, question in enumerate(questions):
            ((name, cell_rewards),) = cells[question].items()
            under[row, self.places[name]] = 1.0
            rewards[row] = math.fsum(cell_rewards) / len(cell_rewards)
        residuals = rewards - rewards.mean()
        residuals[np.abs(residuals) <= rounding] = 0.0
        shares = under.mean(axis=0)
        self.information += np.diag(under.sum(axis=0)) - size * np.outer(shares, shares)
        self.evidence += residuals @ under
        self.residuals += float(residuals @ residuals)
        self.freedom += size - 1
        surprise = math.sqrt(size / (size - 1)) * residuals  # the mean has taken its part of it
        return questions, surprise[:, None] * (under - shares)

    def _keep(self, questions: Sequence[str], scores: Floats) -> None:
        """Add the scores of questions, and sum up the oldest questions."""
        latest = set(questions)
        stays = np.array([question not in latest for question in self.questions], dtype=bool)
        rows = {question: row for row, question in enumerate(self.questions)}
        before = [rows.get(question, -1) for question in questions]
        added = scores + _rearranged(self.scores.T, before).T
        self.scores = np.vstack([self.scores[stays], added])
        self.questions = [question for question in self.questions if question not in latest] + [
            *questions
        ]
        excess = len(self.questions) - max(_MAX_NUMBERS // len(self.names), 1)
        if excess > 0:
            self.squares = self.squares + self.scores[:excess].T @ self.scores[:excess]
            self.scores, self.questions = self.scores[excess:], self.questions[excess:]

    def _move_level(
        self, rewards: Mapping[str, Mapping[str, list[float]]], extra: Collection[str]
    ) -> None:
        """Move the level towards the rewards of a step less the effects of its candidates."""
        effects = self.effects
        rests = [
            value - float(effects[self.places[name]])
            for question, cell in rewards.items()
            if question not in extra or self.level is None
            for name, cell_rewards in cell.items()
            for value in cell_rewards
        ]
        if not rests:
            return
        before, ridge = (0.0, 0.0) if self.level is None else (self.level, _RIDGE)
        self.level = (math.fsum(rests) + ridge * before) / (len(rests) + ridge)

    def _within(self, limit: int) -> _Equations:
        """Return the equations without the oldest candidates beyond ``limit``.

        Their evidence about the remaining candidates stays (Schur complement).
        """
        excess = len(self.names) - limit
        if excess <= 0:
            return self
        inverse = np.linalg.pinv(self.information[:excess, :excess], _SINGULAR, hermitian=True)
        projection = np.hstack([-self.information[excess:, :excess] @ inverse, np.eye(limit)])
        information = projection @ self.information @ projection.T
        return _Equations(
            self.names[excess:],
            (information + information.T) / 2,
            projection @ self.evidence,
            self.questions,
            self.scores @ projection.T,
            projection @ self.squares @ projection.T,
            self.level,
            self.residuals,
            self.freedom,
        )

    def compute_leads(self, other: str) -> dict[str, Lead]:
        """Return the lead of each candidate that questions compare with ``other``.

        Standard errors are by question: all rollouts of a question are one observation. They come
        from the sums of squares of scores, and not of residuals: a lead is never more than the
        square root of the number of questions away from 0 (Efron, 1969).
        """
        linked = self._linked(self.places[other])
        if not linked.any():
            return {}
        block = np.ix_(linked, linked)
        try:
            weights = np.linalg.inv(self.information[block])
        except np.linalg.LinAlgError:  # linked by rounding alone
            return {}
        values = weights @ self.evidence[linked]
        squares = (weights * (self.squares[block] @ weights)).sum(axis=0)
        squares = squares + ((self.scores[:, linked] @ weights) ** 2).sum(axis=0)
        names = [name for name, is_linked in zip(self.names, linked, strict=True) if is_linked]
        return {
            name: Lead(_without_rounding(value), math.sqrt(max(square, 0.0)))
            for name, value, square in zip(names, values, squares, strict=True)
        }

    def _linked(self, start: int) -> NDArray[np.bool_]:
        """Return the candidates that are compared with that at ``start``, perhaps indirectly."""
        links = np.abs(self.information) > _SINGULAR * self.information.diagonal().max(initial=1.0)
        reached: NDArray[np.bool_] = links[start].copy()
        while True:
            wider = reached | links[reached].any(axis=0)
            if (wider == reached).all():
                break
            reached = wider
        reached[start] = False
        return reached


def _rearranged(rows: Floats, order: Sequence[int]) -> Floats:
    """Return the columns of ``rows`` in ``order``; a column of zeros for each -1."""
    padded = np.pad(rows, ((0, 0), (0, 1)))
    return padded[:, list(order)] if len(order) else padded[:, :0]


@dataclass(slots=True)
class _RegressionState:
    """State of the regression.

    Attributes:
        equations: equations of the steps before the current one.
        accounts: sums of rewards by active candidate.
        groups: number of groups by active candidate.
        texts: text of each candidate in the equations.
        step: number of the current step; None before the first.
        rewards: rewards of the current step: question, candidate and rewards of an assignment.
        assignments: number of assignments of the current step.
        extra: questions of the current step that only a verification used.
    """

    equations: _Equations = field(default_factory=_Equations)
    accounts: dict[str, _Account] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    step: int | None = None
    rewards: list[tuple[str, str, list[float]]] = field(default_factory=list)
    assignments: dict[str, None] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)


_STATE = TypeAdapter(_RegressionState)


class Adjusted(Attributor):
    """Mean reward without the difficulty of questions and steps; the estimator of the default.

    Rewards are regressed on candidates within each question of each step. A question that several
    candidates had in a step compares them by itself. Questions that had one candidate each are
    compared through the mean of the step, so that the progress of the policy is not credited to
    any candidate. Two candidates that never shared a question are compared through candidates
    that shared questions with both. The
    weight is the estimated mean reward on the same questions, with effects shrunk towards 0. The
    data of earlier steps fade, since the policy learns. Rewards may be of any range.

    Weights are compared with one another, so ``stderr`` is that of the difference from the mean of
    the active candidates. :meth:`lead` is not shrunk, and its standard error is by question.

    Args:
        half_life: steps after which the weight of an observation is half, above 0.
    """

    class Settings(BaseModel, extra="forbid"):
        """Settings in a configuration."""

        half_life: float = Field(
            HALF_LIFE, gt=0, description="steps after which an observation counts half"
        )

    def __init__(self, half_life: float = HALF_LIFE) -> None:
        if not half_life > 0:
            raise ValueError(f"half_life is {half_life}; required: above 0 steps")
        self.half_life = half_life
        self._state = _RegressionState()
        self._solved: _Equations | None = None
        self._leads: dict[str, dict[str, Lead]] = {}
        self._sentences: Sequence[SentenceValue] | None = None

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Record the rewards of the trajectories of engine step ``step``."""
        state = self._state
        if state.step != step:
            state.equations = self._equations
            state.step, state.rewards, state.assignments, state.extra = step, [], {}, []
        observed: dict[str, tuple[_Account, Candidate, list[Trajectory]]] = {}
        for identity, together, rewards in _by_assignment(trajectories):
            assignment = together[0].assignment
            name, question = assignment.candidate.id, assignment.question.id
            if name not in observed:
                account = state.accounts.setdefault(name, _Account())
                observed[name] = account, assignment.candidate, []
            account, _, scored = observed[name]
            scored += together
            account.add_rewards(question, rewards)
            state.rewards.append((question, name, rewards))
            if identity not in state.assignments:
                state.groups[name] = state.groups.get(name, 0) + 1
                state.assignments[identity] = None
        for name, (account, candidate, scored) in observed.items():
            account.add_metrics(scored)
            state.texts[name] = candidate.text
        self._solved, self._leads, self._sentences = None, {}, None

    def observe_verification(
        self,
        step: int,
        trajectories: Sequence[Trajectory],
        priors: Mapping[str, Sequence[float]],
    ) -> None:
        """Record rollouts of a verification as rollouts of the step with the same policy."""
        trained = {question for question, _, _ in self._state.rewards}
        question_ids = dict.fromkeys(trajectory.question.id for trajectory in trajectories)
        fresh = self._state.step != step
        self.observe(step, trajectories)
        self._state.extra += [
            question_id for question_id in question_ids if fresh or question_id not in trained
        ]

    @property
    def _equations(self) -> _Equations:
        """Return the equations with the step that is being observed."""
        if self._solved is None:
            rewards: dict[str, dict[str, list[float]]] = {}
            for question, candidate, new_rewards in self._state.rewards:
                cell = rewards.get(question)
                if cell is None:
                    cell = rewards[question] = {}
                if candidate in cell:
                    cell[candidate] = [*cell[candidate], *new_rewards]
                else:
                    cell[candidate] = new_rewards
            memory = 0.5 ** (1 / self.half_life)
            before = self._state.equations
            self._solved = before
            if rewards:
                self._solved = before.after(rewards, memory, set(self._state.extra))
        return self._solved

    def stats(self, candidate: Candidate) -> CandidateStats:
        """Return the estimates for ``candidate``: the mean of all from 0 groups if never scored.

        The standard error is infinite without a group.
        """
        equations, state = self._equations, self._state
        level = equations.level or 0.0
        position = equations.places.get(candidate.id)
        if position is None or candidate.id not in state.groups:
            return CandidateStats(candidate, level)
        active = [equations.places[name] for name in state.groups if name in equations.places]
        return state.accounts.get(candidate.id, _Account()).stats(
            candidate,
            level + float(equations.effects[position]),
            float(equations.stderrs(active)[active.index(position)]),
            state.groups[candidate.id],
        )

    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        """Return the lead of ``candidate`` over ``other``, pruned ones included.

        Both need a dozen groups. The standard error is 0 where all questions are ties.
        """
        groups = self._state.groups
        equations = self._equations
        if candidate.id == other.id or other.id not in equations.places:
            return Lead(0.0, math.inf)
        if min(groups.get(member.id, MIN_GROUPS) for member in (candidate, other)) < MIN_GROUPS:
            return Lead(0.0, math.inf)
        if other.id not in self._leads:
            self._leads[other.id] = equations.compute_leads(other.id)
        return self._leads[other.id].get(candidate.id, Lead(0.0, math.inf))

    def sentences(self) -> Sequence[SentenceValue]:
        """Return what each sentence that not all candidates hold adds, the clearest first."""
        if self._sentences is not None:
            return self._sentences
        equations, texts = self._equations, self._state.texts
        indices = [index for index, name in enumerate(equations.names) if name in texts]
        self._sentences = sentence_values(
            [texts[equations.names[index]] for index in indices],
            equations.information[np.ix_(indices, indices)],
            equations.evidence[indices],
            equations.noise,
        )
        return self._sentences

    @property
    def noise(self) -> float:
        """Return the variance of a reward about the mean of its question, above 0."""
        return self._equations.noise

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forget everything; ``priors`` are rewards of all for the same question."""
        prior_rewards = {name: list(rewards) for name, rewards in priors.items() if rewards}
        self._state = _RegressionState(
            groups={name: len(rewards) for name, rewards in prior_rewards.items()},
            rewards=[(_PRIOR, name, rewards) for name, rewards in prior_rewards.items()],
        )
        self._solved, self._leads, self._sentences = None, {}, None

    def forget(self, ids: Collection[str]) -> None:
        """Drop the accounts of pruned candidates; their part of the equations fades.

        Until then it still compares other candidates, and gives values to sentences.
        """
        for name in ids:
            self._state.accounts.pop(name, None)
            self._state.groups.pop(name, None)

    def state_dict(self) -> dict[str, JsonValue]:
        """Return everything that is known, as JSON values."""
        equations = self._state.equations
        names = {*equations.names, *(candidate for _, candidate, _ in self._state.rewards)}
        self._state.texts = {k: v for k, v in self._state.texts.items() if k in names}
        dumped: dict[str, JsonValue] = _STATE.dump_python(self._state, mode="json")
        return dumped

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``."""
        self._state = _STATE.validate_python(dict(state))
        self._solved, self._leads, self._sentences = None, {}, None
