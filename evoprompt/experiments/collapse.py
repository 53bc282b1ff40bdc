"""A reward that falls off in the middle of a training is seen when it happens."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean, variance
from typing import NamedTuple

_STEPS, _STDERRS = 20, 5.0
"""A fall has to have so many standard errors. Of 1,000 trainings of 300 steps of a mean that stays,
with 4, 16 or 64 questions a step and a mean of .05, .2 or .5, at most 3 bring a notice; with ten
steps and four standard errors 169.
"""


class _Seen(NamedTuple):
    """What is known after a step.

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


class RewardWatch:
    """Finds that the mean of some steps is below half of the best before, beyond chance.

    Args:
        before: (step, reward) of the steps of an earlier process.
    """

    def __init__(self, before: Iterable[tuple[int, float]] = ()) -> None:
        self._seen: list[_Seen] = []
        for step, reward in before:
            self.see(step, reward)

    def see(self, step: int, reward: float) -> str:
        """Takes the mean reward of ``step``; what was seen of later ones is forgotten.

        Returns:
            That the reward has fallen, in words; empty if it has not, or it was said before.
        """
        while self._seen and self._seen[-1].step >= step:
            self._seen.pop()
        before = self._seen[-1] if self._seen else _Seen(step, reward, -math.inf, 0.0, step, False)
        highest, spread, last, fallen = before[2:]
        earlier = self._seen[-2 * _STEPS + 1 : -_STEPS + 1]
        if len(earlier) == _STEPS:
            rewards = [one.reward for one in earlier]
            if fmean(rewards) > highest:
                highest, spread, last = fmean(rewards), variance(rewards), earlier[-1].step
        now = [one.reward for one in self._seen[-_STEPS + 1 :]] + [reward]
        told = ""
        if math.isfinite(highest) and not fallen:
            lost = highest - fmean(now)
            chance = _STDERRS * math.sqrt(2 * max(spread, variance(now)) / _STEPS)
            fallen = lost > abs(highest) / 2 and lost > chance
            if fallen:
                told = (
                    f"the reward has fallen to {fmean(now):.3f} in the last {_STEPS} steps; it was "
                    f"{highest:.3f} in the {_STEPS} up to step {last}. The policy may have "
                    "collapsed: a lower host.learning_rate or more KL may keep it, and "
                    "keep_policies: true keeps what it was at each evaluation"
                )
        self._seen.append(_Seen(step, reward, highest, spread, last, fallen))
        return told
