"""Watches whether rewards can tell instructions apart, and says so when they cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pydantic import JsonValue, TypeAdapter

from evoprompt.config import EngineConfig
from evoprompt.types import Trajectory

STRETCH = 20
"""Steps without a single failure, or with nothing else, after which a person is told."""

_ROUNDING = 1e-6  # of the range: rewards are sums in half or single precision


@dataclass(slots=True)
class _Seen:
    """What was seen so far.

    Attributes:
        failed: share of failures in each step of the stretch, 0 or 1; None outside of a stretch.
        steps: length of the stretch.
        outside: whether a reward was outside of the range.
    """

    failed: int | None = None
    steps: int = 0
    outside: bool = False


_SEEN = TypeAdapter(_Seen)


class RewardWatch:
    """Looks at the rewards of every step.

    Args:
        config: the engine's numbers.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._seen = _Seen()

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> list[str]:
        """What a person should be told after ``step``: once a stretch, and once a run."""
        rewards = [t.reward for t in trajectories if t.reward is not None]
        if not rewards:
            return []
        return [*self._outside(step, rewards), *self._stretch(step, rewards)]

    def _outside(self, step: int, rewards: Sequence[float]) -> list[str]:
        low, high = self._config.reward_range
        slack = _ROUNDING * (high - low)
        if self._seen.outside or (min(rewards) >= low - slack and max(rewards) <= high + slack):
            return []
        self._seen.outside = True
        return [
            f"rewards of step {step} go from {min(rewards):g} to {max(rewards):g}, reward_range is "
            f"[{low:g}, {high:g}]: what counts as a failure and how sharply candidates are told "
            "apart follow from it; set reward_range to the least and the greatest reward there is"
        ]

    def _stretch(self, step: int, rewards: Sequence[float]) -> list[str]:
        bar = self._config.failure_threshold
        failures = sum(reward < bar for reward in rewards)
        kind = {0: 0, len(rewards): 1}.get(failures)
        same = kind is not None and kind == self._seen.failed
        self._seen.steps = self._seen.steps + 1 if same else 1
        self._seen.failed = kind
        if kind is None or self._seen.steps != STRETCH:
            return []
        found, effect = (
            ("all trajectories are failures", "instructions can hardly be told apart")
            if kind
            else ("no trajectory is a failure", "the proposer has nothing new to learn from")
        )
        return [
            f"in each of the last {STRETCH} steps up to step {step}, {found} (a reward below "
            f"{bar:g}): {effect}; if this is not what the policy is like, check the reward "
            "function, reward_range and failure_below"
        ]

    def state_dict(self) -> dict[str, JsonValue]:
        """What was seen so far."""
        return asdict(self._seen)

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self._seen = _SEEN.validate_python(dict(state))
