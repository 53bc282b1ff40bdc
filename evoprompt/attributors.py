"""How rewards become importance weights: the attributors that ship with evoprompt."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

import numpy as np
from pydantic import BaseModel, Field, JsonValue, TypeAdapter

from evoprompt.roles import Attributor
from evoprompt.types import Candidate, CandidateStats, SentenceWorth, Trajectory
from evoprompt.worth import Equations, Floats, SentenceLedger

__all__ = ["Adjusted", "WindowMean"]


_MOST_QUESTIONS = 256  # per candidate; enough for case-by-case selection, bounded in memory


@dataclass(slots=True)
class _Sum:
    """A sum of ``count`` values."""

    total: float = 0.0
    count: int = 0

    def add(self, values: Sequence[float]) -> None:
        """Adds ``values``, in any order."""
        # Rollouts of a group finish in any order, which the last digits must not depend on.
        self.total = math.fsum((self.total, *values))
        self.count += len(values)

    @property
    def mean(self) -> float:
        """The mean; there must be a value."""
        return self.total / self.count


@dataclass(slots=True)
class _Account:
    """What is counted for a candidate beside its weight, since it was last reset."""

    metrics: dict[str, _Sum] = field(default_factory=dict)
    questions: OrderedDict[str, _Sum] = field(default_factory=OrderedDict)

    def add(self, group: Sequence[Trajectory], rewards: Sequence[float]) -> None:
        """Counts the scored rollouts ``group`` of one question, which earned ``rewards``."""
        question = group[0].question.id
        self.questions.setdefault(question, _Sum()).add(rewards)
        self.questions.move_to_end(question)
        if len(self.questions) > _MOST_QUESTIONS:
            self.questions.popitem(last=False)
        metrics: dict[str, list[float]] = {}
        for found in group:
            for name, value in found.metrics.items():
                metrics.setdefault(name, []).append(value)
        for name, values in metrics.items():
            self.metrics.setdefault(name, _Sum()).add(values)

    def stats(
        self, candidate: Candidate, weight: float, stderr: float, groups: int
    ) -> CandidateStats:
        """All that is known of ``candidate``."""
        return CandidateStats(
            candidate,
            float(f"{weight:.12g}"),  # who earned the same must not be ranked by rounding
            stderr,
            groups,
            {name: value.mean for name, value in self.metrics.items()},
            {question: value.mean for question, value in self.questions.items()},
        )


def _by_assignment(
    trajectories: Sequence[Trajectory],
) -> Iterator[tuple[str, list[Trajectory], list[float]]]:
    """The scored ones of ``trajectories`` that come together, and their rewards."""
    scored = [trajectory for trajectory in trajectories if trajectory.reward is not None]
    for identity, rollouts in groupby(scored, key=lambda found: found.assignment.id):
        together = list(rollouts)
        yield identity, together, [one.reward for one in together if one.reward is not None]


@dataclass(slots=True)
class _Step:
    """What one candidate earned at one step, by group."""

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
    mean reward of all trajectories of candidate ``j`` told at step ``t``. The paper leaves open
    what happens at a step at which ``j`` was not drawn; here the window holds the last ``window``
    steps at which it was.

    Args:
        window: ``n`` of Eq. 6, in steps, at least 1.
    """

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        window: int = Field(5, ge=1, description="n of Eq. 6, in steps")

    def __init__(self, window: int = 5) -> None:
        if window < 1:
            raise ValueError(f"window is {window}; required: at least 1 step")
        self.window = window
        self._windows: dict[str, _Window] = {}
        self._candidate_stats: dict[str, CandidateStats] = {}

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        for identity, together, rewards in _by_assignment(trajectories):
            window = self._open(together[0].candidate.id, step)
            window.steps[-1].groups.setdefault(identity, _Sum()).add(rewards)
            window.account.add(together, rewards)

    def _open(self, candidate: str, step: int) -> _Window:
        """The window of a candidate, ready to be credited at ``step``."""
        self._candidate_stats.pop(candidate, None)
        window = self._windows.setdefault(candidate, _Window())
        if not window.steps or window.steps[-1].step != step:
            window.steps.append(_Step(step))
            del window.steps[: -self.window]
        return window

    def stats(self, candidate: Candidate) -> CandidateStats:
        """What is known about ``candidate``: weight 0 from 0 groups when it was never scored.

        The standard error treats groups as independent with one variance, pooled over the window;
        it is infinite below two groups.
        """
        known = self._candidate_stats.get(candidate.id)
        if known is None:
            window = self._windows.get(candidate.id)
            known = self._candidate_stats[candidate.id] = (
                _summarise(candidate, window) if window else CandidateStats(candidate, 0.0)
            )
        return known

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forgets everything; each named candidate starts with one step of the given rewards."""
        self._candidate_stats.clear()
        self._windows = {
            candidate: _Window(
                [_Step(-1, {f"prior{i}": _Sum(reward, 1) for i, reward in enumerate(rewards)})]
            )
            for candidate, rewards in priors.items()
            if rewards
        }

    def forget(self, ids: Collection[str]) -> None:
        """Drops what is known about candidates that are no longer alive."""
        for candidate in ids:
            self._windows.pop(candidate, None)
            self._candidate_stats.pop(candidate, None)

    def state_dict(self) -> dict[str, JsonValue]:
        """The window of every candidate, as JSON values."""
        return {"windows": _WINDOWS.dump_python(self._windows, mode="json")}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
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
    """Standard error of the mean over steps of group means that share one variance."""
    groups = [mean for step in steps for mean in step]
    if len(groups) < 2:
        return math.inf
    centre = math.fsum(groups) / len(groups)
    variance = math.fsum((mean - centre) ** 2 for mean in groups) / (len(groups) - 1)
    return math.sqrt(variance * math.fsum(1 / len(step) for step in steps)) / len(steps)


_Record = dict[str, tuple[float, float]]
"""Of a question, by candidate: rollouts, and the sum of their rewards beyond their steps' levels.

``_GONE`` stands for all who are no longer compared; their effects are taken out.
"""

_GONE = ""
_PRIOR = "prior"  # the question that the rewards of a reset are of: the same one for all
_RIDGE = 16.0
"""Rollouts, no better than the average, that count beside a candidate's own, and beside those of a
step as many at the level before it. With 4 or 33 the best of seven was found no more often.
"""
_LEAST = 1e-3  # of the variance of questions is noise at least, and the other way round
_TINY = 1e-12


@dataclass(frozen=True)
class _Fit:
    """Least squares for what each candidate adds to a reward.

    Attributes:
        names: of the candidates.
        equations: the normal ones, less what questions and steps explain: in each row what
            multiplies the effects, and then what it comes to, shape (names, names + 1).
        level: mean reward of the last step under a candidate of average effect; None before one.
        within: squared differences of rewards from the mean of their question, over all steps.
        freedom: degrees of freedom of ``within``.
        between: squared differences of the means of questions from the level of their step.
        inverses: 1 / rollouts, over the questions.
        questions: number of questions.
    """

    names: list[str] = field(default_factory=list)
    equations: Equations = field(default_factory=lambda: np.zeros((0, 1)))
    level: float | None = None
    within: float = 0.0
    freedom: float = 0.0
    between: float = 0.0
    inverses: float = 0.0
    questions: int = 0

    @cached_property
    def places(self) -> dict[str, int]:
        """Index of each candidate."""
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def variances(self) -> tuple[float, float]:
        """Of a reward about the mean of its question, and of those means; above 0."""
        between = self.between / max(self.questions, 1)
        # With one rollout per question only the sum of the two can be known.
        noise = self.within / self.freedom if self.freedom else between / 2
        difficulty = max(between - noise * self.inverses / max(self.questions, 1), 0.0)
        return noise + _LEAST * difficulty + _TINY, difficulty + _LEAST * noise + _TINY

    @cached_property
    def covariance(self) -> Floats:
        """Of the effects, in units of the noise."""
        matrix = self.equations[:, :-1] + _RIDGE * np.eye(len(self.names))
        return np.linalg.inv(matrix).astype(np.float64)

    @cached_property
    def effects(self) -> Floats:
        """About a mean of 0."""
        return self.covariance @ self.equations[:, -1]

    @cached_property
    def errors(self) -> Floats:
        """Standard errors of their differences from the mean of all."""
        means = self.covariance.mean(axis=0)
        alone = len(means) == 1  # and its own mean
        spread = np.diag(self.covariance) - (0 if alone else 2 * means - means.mean())
        found: Floats = np.sqrt(np.maximum(spread, 0.0) * self.variances[0])
        return found

    def without(self, names: Collection[str]) -> _Fit:
        """Without some candidates; what they told of the others stays."""
        gone = [index for index, name in enumerate(self.names) if name in names]
        kept = [index for index, name in enumerate(self.names) if name not in names]
        known = self.equations[np.ix_(gone, gone)] + _RIDGE * np.eye(len(gone))
        shares = np.linalg.solve(known, self.equations[np.ix_(gone, kept)])
        left = [*kept, len(self.names)]
        told = shares.T @ self.equations[np.ix_(gone, left)]
        equations = self.equations[np.ix_(kept, left)] - told
        return replace(self, names=[self.names[index] for index in kept], equations=equations)

    def after(
        self, told: Mapping[tuple[str, str], Sequence[float]], known: Mapping[str, _Record]
    ) -> tuple[_Fit, dict[str, _Record]]:
        """With one more step, and what is to be remembered of its questions.

        Its questions have effects with a ridge, and it has one itself, about the level before. What
        a question adds is what its rewards of all steps tell, less what those before told already.

        Args:
            told: the rewards of the step by question and candidate.
            known: what is remembered of questions.
        """
        names = [*self.names, *sorted({name for _, name in told} - set(self.names))]
        columns = {name: column for column, name in enumerate([*names, _GONE])}
        rows = {question: row for row, question in enumerate(sorted({one for one, _ in told}))}
        count, total, past, sums = np.zeros((4, len(rows), len(columns)))
        scatter = 0.0
        for (question, name), rewards in sorted(told.items()):
            place, mean = (rows[question], columns[name]), math.fsum(rewards) / len(rewards)
            count[place], total[place] = len(rewards), math.fsum(rewards)
            scatter += math.fsum([(reward - mean) ** 2 for reward in rewards])
        for question, row in rows.items():
            for name, record in known.get(question, {}).items():
                past[row, columns[name]], sums[row, columns[name]] = record
        step = float(total.sum() / count.sum())
        total -= count * step
        fit = self._with_spread(count, total, scatter)

        noise, difficulty = fit.variances
        ridge = noise / difficulty
        both, beyond = count + past, sums + total
        asked = count.sum(axis=1)
        shares = asked / (both.sum(axis=1) + ridge)
        of_step = float(asked @ (1 - shares))
        beside = np.append(count.sum(axis=0) - shares @ both, total.sum() - shares @ beyond.sum(1))
        if self.level is not None:
            of_step += _RIDGE
            beside[-1] += _RIDGE * (self.level - step)
        equations = _without_questions(both, beyond, ridge) - _without_questions(past, sums, ridge)
        equations -= np.outer(beside[:-1], beside) / of_step
        size = len(self.names)
        equations[:size, :size] += self.equations[:, :-1]
        equations[:size, -1] += self.equations[:, -1]
        kept = [*range(len(names)), len(columns)]  # less the column of those who are gone
        fit = replace(fit, names=names, equations=equations[:-1, kept])
        level = (beside[-1] - float(beside[:-2] @ fit.effects)) / of_step
        beyond -= count * level
        records = {
            question: {
                name: (float(both[row, column]), float(beyond[row, column]))
                for name, column in columns.items()
                if both[row, column]
            }
            for question, row in rows.items()
        }
        return replace(fit, level=float(step + level)), records

    def _with_spread(self, count: Floats, total: Floats, scatter: float) -> _Fit:
        """With the variances of one more step."""
        plain = total.copy()
        plain[:, : len(self.names)] -= count[:, : len(self.names)] * self.effects
        asked = count.sum(axis=1)
        centres = plain.sum(axis=1) / asked
        squares = float((plain**2 / np.maximum(count, 1)).sum() - asked @ centres**2)
        offsets = centres - plain.sum() / asked.sum()
        return replace(
            self,
            within=self.within + scatter + max(squares, 0.0),
            freedom=self.freedom + float(asked.sum()) - len(asked),
            between=self.between + float(offsets @ offsets),
            inverses=self.inverses + float((1 / asked).sum()),
            questions=self.questions + len(asked),
        )


def _without_questions(count: Floats, total: Floats, ridge: float) -> Floats:
    """Equations of the columns, with an effect of each row taken out."""
    shares = count / (count.sum(axis=1, keepdims=True) + ridge)
    matrix = np.diag(count.sum(axis=0)) - count.T @ shares
    return np.column_stack([matrix, total.sum(axis=0) - total.sum(axis=1) @ shares])


@dataclass(slots=True)
class _State:
    """All that is known.

    Attributes:
        fit: without the step that is being told.
        records: of the questions met last, without that step.
        accounts: by candidate.
        groups: that were told, by candidate.
        step: number of that step; None before the first.
        rewards: of that step, by question and candidate.
        assignments: that were told in it.
        texts: of the candidates met in it.
        ledger: what the steps before told of candidates that share sentences, dead ones too.
    """

    fit: _Fit = field(default_factory=_Fit)
    records: OrderedDict[str, _Record] = field(default_factory=OrderedDict)
    accounts: dict[str, _Account] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    step: int | None = None
    rewards: list[tuple[str, str, list[float]]] = field(default_factory=list)
    assignments: dict[str, None] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    ledger: SentenceLedger = field(default_factory=SentenceLedger)


_STATE = TypeAdapter(_State)


class Adjusted(Attributor):
    """Mean reward over the whole life, without the difficulty of questions and steps.

    Importance weight = estimated mean reward on the same questions at the same step: a ridge
    regression of the rewards of all steps on candidates and questions, after the mean of each step,
    in which the policy's progress is. So a question compares all candidates that it ever had, in
    one step or in several, and one that had a single candidate counts against its step. Effects are
    shrunk towards 0, more so where little is known. Any range of rewards will do.

    Weights are compared with one another, so the standard error is that of the difference from the
    population's mean. All candidates are estimated together: a step of 300 takes some 40 ms.

    Args:
        records: most questions whose rewards are remembered, those met last; at least 0.
    """

    def __init__(self, records: int = 4096) -> None:
        if records < 0:
            raise ValueError(f"records is {records}; required: at least 0 questions")
        self.records = records
        self._state = _State()
        self._fitted: tuple[_Fit, dict[str, _Record]] | None = None

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        if self._state.step != step:
            self._close()
        state, self._state.step = self._state, step
        for identity, together, rewards in _by_assignment(trajectories):
            candidate = together[0].candidate.id
            state.rewards.append((together[0].question.id, candidate, rewards))
            state.accounts.setdefault(candidate, _Account()).add(together, rewards)
            new = identity not in state.assignments
            state.groups[candidate] = state.groups.get(candidate, 0) + new
            state.assignments[identity] = None
            state.texts[candidate] = together[0].candidate.text
        self._fitted = None

    def observe_verification(
        self,
        step: int,
        trajectories: Sequence[Trajectory],
        priors: Mapping[str, Sequence[float]],
    ) -> None:
        """Counts them as of the step itself: a question of several compares those."""
        self.observe(step, trajectories)

    def stats(self, candidate: Candidate) -> CandidateStats:
        """What is known about ``candidate``: the mean of all from 0 groups if never scored.

        The standard error is infinite without a group.
        """
        fit = self._fit()[0]
        level = fit.level or 0.0
        place = fit.places.get(candidate.id)
        if place is None:
            return CandidateStats(candidate, level)
        return self._state.accounts.get(candidate.id, _Account()).stats(
            candidate,
            level + float(fit.effects[place]),
            float(fit.errors[place]),
            self._state.groups[candidate.id],
        )

    def sentences(self) -> Sequence[SentenceWorth]:
        """What each sentence that not all candidates hold is worth, by all steps so far."""
        return self._ledger().worth(self.noise)

    @property
    def noise(self) -> float:
        """Variance of a reward about the mean of its question, above 0."""
        return self._fit()[0].variances[0]

    def _ledger(self) -> SentenceLedger:
        """With the step that is being told."""
        state, after = self._state, self._fit()[0]
        if after is state.fit:
            return state.ledger
        known = {**state.ledger.texts, **state.texts}
        texts = {name: known[name] for name in after.names if name in known}
        told, size = after.equations.copy(), len(state.fit.names)
        told[:size, :size] -= state.fit.equations[:, :-1]
        told[:size, -1] -= state.fit.equations[:, -1]
        places = [after.places[name] for name in texts]
        return state.ledger.plus(texts, told[np.ix_(places, [*places, len(after.names)])])

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forgets everything; what is given are everybody's rewards for the same questions."""
        given = {name: list(rewards) for name, rewards in priors.items() if rewards}
        self._state = _State(
            groups={name: len(rewards) for name, rewards in given.items()},
            rewards=[(_PRIOR, name, rewards) for name, rewards in given.items()],
        )
        self._fitted = None

    def forget(self, ids: Collection[str]) -> None:
        """Drops what is known about candidates that are no longer alive."""
        self._close()
        state, fit = self._state, self._state.fit
        for record in state.records.values():
            for name in [name for name in record if name in ids]:
                count, total = record.pop(name)
                known, rest = record.get(_GONE, (0.0, 0.0))
                effect = float(fit.effects[fit.places[name]])
                record[_GONE] = (known + count, rest + total - count * effect)
        state.fit = fit.without([name for name in ids if name in fit.places])
        for name in ids:
            state.accounts.pop(name, None)
            state.groups.pop(name, None)

    def _fit(self) -> tuple[_Fit, dict[str, _Record]]:
        """The regression with the step that is being told, and the records of its questions."""
        if self._fitted is None:
            told: dict[tuple[str, str], list[float]] = {}
            for question, candidate, rewards in self._state.rewards:
                told.setdefault((question, candidate), []).extend(rewards)
            before = self._state.fit
            self._fitted = before.after(told, self._state.records) if told else (before, {})
        return self._fitted

    def _close(self) -> None:
        """Goes on to the next step."""
        state = self._state
        state.ledger = self._ledger()
        state.fit, records = self._fit()
        for question, record in records.items():
            if question != _PRIOR:
                state.records[question] = record
                state.records.move_to_end(question)
        while len(state.records) > self.records:
            state.records.popitem(last=False)
        state.step, state.rewards, state.assignments, state.texts = None, [], {}, {}
        self._fitted = None

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything that is known, as JSON values."""
        found: dict[str, JsonValue] = _STATE.dump_python(self._state, mode="json")
        return found

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self._state = _STATE.validate_python(dict(state))
        self._fitted = None
