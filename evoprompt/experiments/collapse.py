"""Watch that reports a collapse of the reward in a training when it happens."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean, variance
from typing import NamedTuple

_STEPS, _STDERRS = 20, 5.0
"""Length of a window in steps, and least size of a fall in standard errors.

Of 1,000 trainings of 300 steps of a mean that stays, with 4, 16 or 64 questions a step and a mean
of .05, .2 or .5, at most 3 bring a notice; with ten steps and four standard errors 169.
"""


class _RewardRecord(NamedTuple):
    """Reward statistics after a step.

    Attributes:
        step: its number.
        reward: its mean reward.
        highest: mean of the best :data:`_STEPS` steps that ended as many steps before.
        spread: their variance.
        last: the last of these.
        fallen: whether the reward has fallen by now.
    """

    step: int
    reward: float
    highest: float
    spread: float
    last: int
    fallen: bool


class CollapseWatch:
    """Watch that reports a mean reward of recent steps far below half of the best before.

    The difference has to be beyond chance, by :data:`_STDERRS` standard errors.

    Args:
        before: (step, reward) of the steps of an earlier process.
    """

    def __init__(self, before: Iterable[tuple[int, float]] = ()) -> None:
        self._records: list[_RewardRecord] = []
        for step, reward in before:
            self.record_reward(step, reward)

    def record_reward(self, step: int, reward: float) -> str:
        """Record the mean reward of ``step``; forget the records of later steps.

        Returns:
            Notice that the reward has fallen; empty if it has not, or was reported before.
        """
        while self._records and self._records[-1].step >= step:
            self._records.pop()
        before = (
            self._records[-1]
            if self._records
            else _RewardRecord(step, reward, -math.inf, 0.0, step, False)
        )
        highest, spread, last, fallen = before[2:]
        earlier = self._records[-2 * _STEPS + 1 : -_STEPS + 1]
        if len(earlier) == _STEPS:
            rewards = [record.reward for record in earlier]
            if fmean(rewards) > highest:
                highest, spread, last = fmean(rewards), variance(rewards), earlier[-1].step
        now = [record.reward for record in self._records[-_STEPS + 1 :]] + [reward]
        notice = ""
        if math.isfinite(highest) and not fallen:
            loss = highest - fmean(now)
            chance = _STDERRS * math.sqrt(2 * max(spread, variance(now)) / _STEPS)
            fallen = loss > abs(highest) / 2 and loss > chance
            if fallen:
                notice = (
                    f"the reward has fallen to {fmean(now):.3f} in the last {_STEPS} steps; it was "
                    f"{highest:.3f} in the {_STEPS} up to step {last}. The policy may have "
                    "collapsed: a lower host.learning_rate or more KL may keep it, and "
                    "keep_policies: true keeps what it was at each evaluation"
                )
        self._records.append(_RewardRecord(step, reward, highest, spread, last, fallen))
        return notice
