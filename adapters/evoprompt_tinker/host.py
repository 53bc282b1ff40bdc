"""Parts of ``tinker-cookbook`` that the adapter relies on; all of them are public there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

MINIMUM = "0.6"
"""Oldest version with a rollout strategy in the configuration and a renderer of messages."""

TESTED = "0.6"
"""The newest release, of two numbers, that the tests ran with."""

REPLACED = ("dataset_builder", "rollout_error_tolerance")
"""The fields of ``rl.train.Config`` that are replaced while an engine is attached."""

Reward = tuple[float, Mapping[str, float]]
"""What a builder says of one trajectory: a reward to be added, and metrics."""


class HostTokenizer(Protocol):
    """The tokenizer of the model that is trained."""

    @property
    def all_special_tokens(self) -> list[str]:
        """Return the tokens that are no text."""

    def encode(self, text: str, add_special_tokens: bool = ...) -> list[int]:
        """Return the tokens of a text."""

    def decode(self, token_ids: list[int], skip_special_tokens: bool = ...) -> str:
        """Text of tokens."""


class HostAction(Protocol):
    """Action of the policy in a turn."""

    tokens: list[int]


class HostPrompt(Protocol):
    """Prompt of the policy: ``tinker.ModelInput``."""

    chunks: Sequence[Any]  # only texts have ``tokens``


class HostTransition(Protocol):
    """A turn."""

    ob: HostPrompt
    ac: HostAction
    reward: float
    metrics: Mapping[str, float]


class HostTrajectory(Protocol):
    """A rollout."""

    transitions: Sequence[HostTransition]
    stop_reason: str | None


class HostBuilder(Protocol):
    """``EnvGroupBuilder``: a question, of which it makes a group of environments."""

    async def make_envs(self) -> Sequence[object]:
        """Return the environments of a group."""

    async def compute_group_rewards(
        self, trajectory_group: list[HostTrajectory], env_group: Sequence[object]
    ) -> list[Reward]:
        """Return the rewards that are added to those of the steps."""

    async def cleanup(self) -> None:
        """Clean up after the end of a group."""

    def logging_tags(self) -> list[str]:
        """Return the names under which metrics are averaged."""


class HostDataset(Protocol):
    """``RLDataset``."""

    def get_batch(self, index: int) -> Sequence[HostBuilder]:
        """Return the builders of a batch, the same ones for the same index."""

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""


class HostStrategy(Protocol):
    """``RolloutStrategy``: how a group is rolled out."""

    @property
    def catches_group_errors(self) -> bool:
        """Return whether a failed group is left out."""

    async def execute(self, env_group_builder: Any, policy: Any) -> Any:
        """Roll a group out with the policy."""


class HostTermination(Protocol):
    """``TerminationRewardPolicy``: what becomes of rewards of rollouts that a limit ended."""

    zero_reward_on_limit: bool
    limit_stop_reasons: tuple[str, ...]


class HostConfig(Protocol):
    """``rl.train.Config``; ``plugin.py`` looks for everything that is here."""

    dataset_builder: Any
    rollout_error_tolerance: Any
    async_config: object | None
    log_path: str
    model_name: str
    save_every: int
    rolling_save_every: int
    num_epochs: int
    max_steps: int | None

    def effective_rollout_strategy(self) -> HostStrategy:
        """Return the strategy of a training."""

    def effective_termination(self) -> HostTermination | None:
        """Return the rule for rewards of rollouts that a limit ended."""
