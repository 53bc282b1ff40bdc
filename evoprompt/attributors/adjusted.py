"""Weights without the luck of the draw: rewards minus what their questions and steps were worth."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np
from pydantic import JsonValue, TypeAdapter

from evoprompt.attributors.effects import DENSE, NOBODY, Belief, Estimate, Groups, Noise
from evoprompt.attributors.records import Record, Records
from evoprompt.attributors.sums import Sum, meet, without_rounding
from evoprompt.roles import Attributor
from evoprompt.types import Candidate, CandidateStats, Trajectory

_PRIOR = "prior"
"""The question that the rewards of a reset are of: the same one for all."""
_RECORD_MEMORY = 0.9
"""Of what is remembered of a question, each time it comes again: the policy learns."""


@dataclass(slots=True)
class _Account:
    """What is counted for a candidate beside its effect."""

    groups: int = 0
    metrics: dict[str, Sum] = field(default_factory=dict)
    questions: OrderedDict[str, Sum] = field(default_factory=OrderedDict)


@dataclass(slots=True)
class _Step:
    """The rewards of the step that is being told.

    Attributes:
        number: of the step.
        rewards: by question and candidate.
        assignments: ids of those that were told.
    """

    number: int
    rewards: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    assignments: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Saved:
    """Everything, as JSON has it."""

    names: list[str]
    level: float
    level_variance: float | None
    information: list[list[float]] | list[float]
    evidence: list[float]
    noise: Noise
    accounts: dict[str, _Account]
    records: list[tuple[str, Record]]
    before: int | None
    step: int | None
    rewards: list[tuple[str, str, list[float]]]
    assignments: list[str]


_SAVED = TypeAdapter(_Saved)


class Adjusted(Attributor):
    """Importance weight = estimated mean reward on the same questions at the same step.

    The rewards of a candidate's whole life count. Removed from them is what all rewards of a step
    have in common, the policy's progress among it, and what a question was worth: known where
    several candidates were asked it, in one step or in several, and else the step's mean. Estimates
    are shrunk towards the mean of all, more so where little is known. The model is that of
    :mod:`evoprompt.attributors.effects`; any range of rewards will do.

    Weights are compared with one another, so the standard error is that of the difference from the
    population's mean.

    Args:
        records: most questions whose rewards are remembered, those met last; at least 0.
    """

    def __init__(self, records: int = 4096) -> None:
        if records < 0:
            raise ValueError(f"records is {records}; required: at least 0 questions")
        self.records = records
        self._clear()

    def _clear(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._names: list[str] = []  # whose effects are in the belief, in its order
        self._belief = Belief()  # before the step that is being told
        self._records = Records(self.records)
        self._before: int | None = None
        self._step: _Step | None = None
        self._changed()

    def _changed(self) -> None:
        self.__dict__.pop("_now", None)

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        if self._step is None or self._step.number != step:
            self._close()
            self._step = _Step(step)
        scored = [trajectory for trajectory in trajectories if trajectory.reward is not None]
        metrics: dict[str, dict[str, list[float]]] = {}
        # The rollouts of an assignment usually come together: look its accounts up once.
        for identity, rollouts in groupby(scored, key=lambda found: found.assignment.id):
            together = list(rollouts)
            question, candidate = together[0].question.id, together[0].candidate.id
            rewards = [found.reward for found in together if found.reward is not None]
            self._step.rewards.setdefault((question, candidate), []).extend(rewards)
            account = self._accounts.setdefault(candidate, _Account())
            account.groups += identity not in self._step.assignments
            self._step.assignments.add(identity)
            meet(account.questions, question).add(rewards)
            told = metrics.setdefault(candidate, {})
            for found in together:
                for name, value in found.metrics.items():
                    told.setdefault(name, []).append(value)
        for candidate, told in metrics.items():
            for name, values in told.items():
                self._accounts[candidate].metrics.setdefault(name, Sum()).add(values)
        self._changed()

    def observe_verification(
        self,
        step: int,
        trajectories: Sequence[Trajectory],
        priors: Mapping[str, Sequence[float]],
    ) -> None:
        """Counts them as of the step itself: a question asked under several compares those."""
        self.observe(step, trajectories)

    def stats(self, candidate: Candidate) -> CandidateStats:
        """What is known about ``candidate``: the mean of all from 0 groups if never scored.

        The standard error is infinite without a group.
        """
        now = self._now
        place = now.places.get(candidate.id)
        if place is None:
            return CandidateStats(candidate, now.belief.level)
        account = self._accounts[candidate.id]
        return CandidateStats(
            candidate,
            without_rounding(now.belief.level + float(now.estimate.effects[place])),
            float(now.estimate.errors[place]),
            account.groups,
            {name: value.mean for name, value in account.metrics.items()},
            {question: value.mean for question, value in account.questions.items()},
        )

    def difference(self, one: str, other: str) -> tuple[float, float]:
        """By how much candidate ``one`` earns more than ``other``, and the standard error of it.

        On the same questions at the same step; not shrunk. (0, infinity) where nothing compares
        them.
        """
        now = self._now
        if one not in now.places or other not in now.places:
            return 0.0, math.inf
        return now.belief.difference(now.places[one], now.places[other])

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forgets everything; what is given are everybody's rewards for the same questions."""
        self._clear()
        given = {name: list(rewards) for name, rewards in priors.items() if rewards}
        if not given:
            return
        self._step = _Step(-1, {(_PRIOR, name): rewards for name, rewards in given.items()})
        self._accounts = {name: _Account(len(rewards)) for name, rewards in given.items()}
        self._changed()

    def forget(self, ids: Collection[str]) -> None:
        """Drops what is known about candidates that are no longer alive."""
        self._close()
        dropped = set(ids).intersection(self._names)
        if dropped:
            self._records.forget(dropped, self._now.effects)
            places = [index for index, name in enumerate(self._names) if name in dropped]
            self._belief = self._belief.without_candidates(np.array(places, dtype=np.intp))
            self._names = [name for name in self._names if name not in dropped]
        for name in ids:
            self._accounts.pop(name, None)
        self._changed()

    @cached_property
    def _now(self) -> _Now:
        """What is known with the step that is being told."""
        names, belief = self._names, self._belief
        if self._step is None or not self._step.rewards:
            return _Now(names, belief)
        told = sorted(self._step.rewards.items())  # whatever order it came in
        known = set(names)
        new = dict.fromkeys(name for (_, name), _ in told if name not in known)
        names = [*names, *new]
        places = {name: index for index, name in enumerate([*names, NOBODY])}
        keys: list[tuple[str, str]] = []
        entries: list[tuple[int, int, float, float, float, float, float]] = []
        for number, (question, groups) in enumerate(groupby(told, key=lambda one: one[0][0])):
            now = {name: rewards for (_, name), rewards in groups}
            before = self._records.of(question)
            for name, earlier in before.items():
                if name not in now:
                    keys.append((question, name))
                    entries.append((number, places[name], 0.0, 0.0, 0.0, *earlier))
            for name, rewards in now.items():
                count, mean = len(rewards), math.fsum(rewards) / len(rewards)
                squares = math.fsum([(reward - mean) ** 2 for reward in rewards])
                earlier = before.get(name, (0.0, 0.0))
                keys.append((question, name))
                entries.append((number, places[name], float(count), mean, squares, *earlier))
        question_of, candidate_of, count_of, mean_of, squares_of, earlier_of, sums_of = map(
            np.array, zip(*entries, strict=True)
        )
        found = Groups(
            question_of,
            candidate_of,
            count_of,
            mean_of,
            squares_of,
            _RECORD_MEMORY * earlier_of,
            _RECORD_MEMORY * sums_of,
        )
        last = self._step.number - 1 if self._before is None else self._before
        steps = max(self._step.number - last, 0)
        return _Now(names, belief.with_candidates(len(new)).after(steps, found), keys, found)

    def _close(self) -> None:
        """Goes on to the next step."""
        if self._step is None:
            return
        now = self._now
        self._names, self._belief = now.names, now.belief
        effects = now.effects
        for question, rows in groupby(now.records(), key=lambda row: row[0]):
            if question != _PRIOR:
                record = {name: (count, total) for _, name, count, total in rows}
                self._records.put(question, record, effects)
        self._before = self._step.number if self._step.number >= 0 else None
        self._step = None
        self._changed()

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything that is known, as JSON values."""
        step, belief = self._step, self._belief
        saved = _Saved(
            names=self._names,
            level=belief.level,
            level_variance=belief.level_variance if belief.noise.questions else None,
            information=belief.information.tolist(),
            evidence=belief.evidence.tolist(),
            noise=belief.noise,
            accounts=self._accounts,
            records=self._records.dump(),
            before=self._before,
            step=None if step is None else step.number,
            rewards=[] if step is None else [(*key, told) for key, told in step.rewards.items()],
            assignments=[] if step is None else sorted(step.assignments),
        )
        found: dict[str, JsonValue] = _SAVED.dump_python(saved, mode="json")
        return found

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        saved = _SAVED.validate_python(dict(state))
        self._clear()
        self._names, self._accounts = saved.names, saved.accounts
        size = len(saved.evidence)
        self._belief = Belief(
            saved.level,
            math.inf if saved.level_variance is None else saved.level_variance,
            np.array(saved.information).reshape((size, size) if size <= DENSE else size),
            np.array(saved.evidence),
            saved.noise,
        )
        self._records.load(saved.records)
        self._before = saved.before
        if saved.step is not None:
            rewards = {(question, name): told for question, name, told in saved.rewards}
            self._step = _Step(saved.step, rewards, set(saved.assignments))


@dataclass(slots=True)
class _Now:
    """What is known at a moment.

    Attributes:
        names: of the candidates, in the order of ``belief``.
        belief: of their effects.
        keys: question and candidate of each of ``groups``.
        groups: of the step that is being told; None without one.
    """

    names: list[str]
    belief: Belief
    keys: Sequence[tuple[str, str]] = ()
    groups: Groups | None = None
    places: dict[str, int] = field(init=False)
    estimate: Estimate = field(init=False)

    def __post_init__(self) -> None:
        self.places = {name: index for index, name in enumerate(self.names)}
        self.estimate = self.belief.estimate()

    @property
    def effects(self) -> dict[str, float]:
        """By candidate."""
        return dict(zip(self.names, self.estimate.effects.tolist(), strict=True))

    def records(self) -> Iterator[tuple[str, str, float, float]]:
        """Question, candidate, and what is to be remembered of the two."""
        if self.groups is not None:
            counts, sums = self.groups.remembered(self.belief.level)
            for key, count, total in zip(self.keys, counts.tolist(), sums.tolist(), strict=True):
                yield *key, count, total
