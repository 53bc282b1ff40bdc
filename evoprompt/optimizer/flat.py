"""Flat rewards: an optimization in which every reward is the same has nothing to learn from."""

from __future__ import annotations

import math
from dataclasses import dataclass

NOTICE_AFTER = 5
"""Iterations with flat rewards after which the user is warned."""

STOP_AFTER = 45
"""Iterations for each component in which every reward is the lowest, after which it stops. If one
proposal in ten helps, none of so many helps in 1 of 100 optimizations; of 25, in 7 of 100
(benchmarks/frozen, *90 % harmful*).
"""


@dataclass
class RewardRange:
    """Range of the rewards of an optimization; a rollout that failed without one is not in it.

    Attributes:
        count: number of rewards.
        minimum: the lowest reward.
        maximum: the highest reward.
    """

    count: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf

    @property
    def is_flat(self) -> bool:
        """Return whether there are rewards, and all of them are the same."""
        return self.minimum == self.maximum

    def add(self, reward: float) -> None:
        """Extend the range by a reward."""
        self.count += 1
        self.minimum, self.maximum = min(self.minimum, reward), max(self.maximum, reward)


class FlatRewardWatch:
    """Detector of an optimization in which every reward is the same.

    Rewards are *flat* while all of them, those of the seeds included, are the same number below
    perfect. They are *the lowest* if that number is 0 or less. No other reward is known to be the
    lowest, as a metric does not state its range: flat rewards of 0.5 bring a warning and no stop.
    One reward that differs ends the detection.

    Args:
        rewards: range of all rewards so far.
        perfect: the greatest reward there is.
        can_stop: whether the optimization stops because of it; not if the user sets ``patience``.
        components: number of texts of a candidate; an iteration rewrites one of them.
    """

    def __init__(
        self, rewards: RewardRange, perfect: float, can_stop: bool, components: int = 1
    ) -> None:
        self._rewards = rewards
        self._perfect = perfect
        self._can_stop = can_stop
        self._stop_after = STOP_AFTER * components
        self._iterations = 0

    def observe(self, step: int, new_rewards: int) -> str:
        """Count an iteration, and return the warning that is due after it, if any.

        Args:
            step: number of the iteration.
            new_rewards: number of rewards since the one before, if a new text was tried; without
                one the iteration does not count.
        """
        if not new_rewards or not self._is_flat:
            return ""
        self._iterations += 1
        if self._iterations != NOTICE_AFTER:
            return ""
        outlook = ""
        if self._can_stop and self._is_lowest:
            outlook = (
                f"; after {self._stop_after} iterations like these the optimization stops, unless "
                f"patience is set ({_PATIENCE})"
            )
        return (
            f"every reward up to iteration {step} is {self._rewards.minimum:g} "
            f"({self._rewards.count:,} rewards): instructions cannot be distinguished; "
            f"{_REQUIRED}{outlook}"
        )

    @property
    def stop_reason(self) -> str:
        """Return the reason to stop; empty while there is none."""
        if not (self._can_stop and self._is_flat and self._is_lowest):
            return ""
        if self._iterations < self._stop_after:
            return ""
        return (
            f"every reward is {self._rewards.minimum:g}, the lowest, after {self._iterations} "
            f"iterations ({self._rewards.count:,} rewards): instructions cannot be distinguished; "
            f"{_REQUIRED}; to go on anyway, set patience ({_PATIENCE}), with resume where a "
            "directory was given"
        )

    @property
    def _is_flat(self) -> bool:
        return self._rewards.is_flat and self._rewards.maximum < self._perfect - 1e-9

    @property
    def _is_lowest(self) -> bool:
        return self._rewards.maximum <= 0


_REQUIRED = (
    "required: a metric that gives a good output more than a bad one, and a program that has such "
    "outputs; look at the outputs and at the metric"
)
_PATIENCE = "options=OptimizeOptions(patience=50), in a configuration host.patience: 50"
