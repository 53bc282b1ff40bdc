"""The mean reward of a candidate over the last steps it was drawn at (paper Eq. 6)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from pydantic import JsonValue, TypeAdapter

from evoprompt.attributors.sums import Sum, meet, without_rounding
from evoprompt.roles import Attributor
from evoprompt.types import Candidate, CandidateStats, Trajectory


@dataclass(slots=True)
class _Step:
    """What one candidate earned at one step: per group, and per metric."""

    step: int
    groups: dict[str, Sum] = field(default_factory=dict)
    metrics: dict[str, Sum] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        total = math.fsum(group.total for group in self.groups.values())
        return total / sum(group.count for group in self.groups.values())


@dataclass(slots=True)
class _Account:
    steps: list[_Step] = field(default_factory=list)
    questions: OrderedDict[str, Sum] = field(default_factory=OrderedDict)


_ACCOUNTS = TypeAdapter(dict[str, _Account])


class WindowMean(Attributor):
    """Importance weight = mean of the last ``window`` values of the step means (Eq. 6).

    ``r_bar[t, j]`` is the mean reward of all trajectories of candidate ``j`` told at step ``t``.
    The paper leaves open what happens at a step at which ``j`` was not drawn; here the window
    holds the last ``window`` steps at which it was.

    Args:
        window: ``n`` of Eq. 6, in steps, at least 1.
    """

    def __init__(self, window: int = 5) -> None:
        if window < 1:
            raise ValueError(f"window is {window}; required: at least 1 step")
        self.window = window
        self._accounts: dict[str, _Account] = {}
        self._candidate_stats: dict[str, CandidateStats] = {}

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        scored = [trajectory for trajectory in trajectories if trajectory.reward is not None]
        # The rollouts of an assignment usually come together: look its accounts up once.
        for identity, rollouts in groupby(scored, key=lambda found: found.assignment.id):
            together = list(rollouts)
            account = self._open(together[0].candidate.id, step)
            group = account.steps[-1].groups.setdefault(identity, Sum())
            question = meet(account.questions, together[0].question.id)
            metrics = account.steps[-1].metrics
            rewards = [found.reward for found in together if found.reward is not None]
            group.add(rewards)
            question.add(rewards)
            named: dict[str, float] = {}
            for found in together:
                named.update(found.metrics)
            for name in named:
                values = [found.metrics[name] for found in together if name in found.metrics]
                metrics.setdefault(name, Sum()).add(values)

    def _open(self, candidate: str, step: int) -> _Account:
        """The account of a candidate, ready to be credited at ``step``."""
        self._candidate_stats.pop(candidate, None)
        account = self._accounts.setdefault(candidate, _Account())
        if not account.steps or account.steps[-1].step != step:
            account.steps.append(_Step(step))
            del account.steps[: -self.window]
        return account

    def stats(self, candidate: Candidate) -> CandidateStats:
        """What is known about ``candidate``: weight 0 from 0 groups when it was never scored.

        The standard error treats groups as independent with one variance, pooled over the window;
        it is infinite below two groups.
        """
        known = self._candidate_stats.get(candidate.id)
        if known is None:
            account = self._accounts.get(candidate.id)
            known = self._candidate_stats[candidate.id] = (
                _summarise(candidate, account) if account else CandidateStats(candidate, 0.0)
            )
        return known

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forgets everything; each named candidate starts with one step of the given rewards."""
        self._candidate_stats.clear()
        self._accounts = {
            candidate: _Account(
                [_Step(-1, {f"prior{i}": Sum(reward, 1) for i, reward in enumerate(rewards)})]
            )
            for candidate, rewards in priors.items()
            if rewards
        }

    def forget(self, ids: Collection[str]) -> None:
        """Drops what is known about candidates that are no longer alive."""
        for candidate in ids:
            self._accounts.pop(candidate, None)
            self._candidate_stats.pop(candidate, None)

    def state_dict(self) -> dict[str, JsonValue]:
        """The window of every candidate, as JSON values."""
        return {"accounts": _ACCOUNTS.dump_python(self._accounts, mode="json")}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self._accounts = _ACCOUNTS.validate_python(state["accounts"])
        self._candidate_stats = {}


def _summarise(candidate: Candidate, account: _Account) -> CandidateStats:
    weight = math.fsum(step.mean for step in account.steps) / len(account.steps)
    metrics: dict[str, Sum] = {}
    for step in account.steps:
        for name, value in step.metrics.items():
            whole = metrics.setdefault(name, Sum())
            whole.total += value.total
            whole.count += value.count
    return CandidateStats(
        candidate,
        without_rounding(weight),
        _standard_error([[group.mean for group in s.groups.values()] for s in account.steps]),
        sum(len(step.groups) for step in account.steps),
        {name: value.mean for name, value in metrics.items()},
        {question: value.mean for question, value in account.questions.items()},
    )


def _standard_error(steps: Sequence[Sequence[float]]) -> float:
    """Standard error of the mean over steps of group means that share one variance."""
    groups = [mean for step in steps for mean in step]
    if len(groups) < 2:
        return math.inf
    centre = math.fsum(groups) / len(groups)
    variance = math.fsum((mean - centre) ** 2 for mean in groups) / (len(groups) - 1)
    return math.sqrt(variance * math.fsum(1 / len(step) for step in steps)) / len(steps)
