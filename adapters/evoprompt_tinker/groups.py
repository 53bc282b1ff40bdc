"""Builders around the cookbook's own: one question each, asked under one candidate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinker_cookbook.rl.rollout_strategy import RolloutResult, RolloutStrategy
from tinker_cookbook.rl.types import EnvGroupBuilder

from evoprompt.binding import set_purpose
from evoprompt.prompts import Render
from evoprompt.types import Candidate
from evoprompt_tinker.host import HostBuilder, HostStrategy, HostTrajectory, Reward
from evoprompt_tinker.outcomes import rewards
from evoprompt_tinker.prompts import place, question_of

if TYPE_CHECKING:
    from evoprompt_tinker.batch import Batch


class Group(EnvGroupBuilder):  # type: ignore[misc]
    """A builder whose environments ask under a candidate; everything else is its own.

    Args:
        inner: the builder of the dataset.
        candidate: asked whenever environments are made.
        render: places the instruction.
        most: environments to make; None for as many as the builder makes.
    """

    def __init__(
        self,
        inner: HostBuilder,
        candidate: Callable[[], Candidate],
        render: Render,
        most: int | None = None,
    ) -> None:
        self.inner = inner
        self._candidate = candidate
        self._render = render
        self._most = most

    async def make_envs(self) -> Sequence[object]:
        """The environments of the builder, with the instruction in their prompts."""
        return self.prepared(await self.inner.make_envs())

    def prepared(self, envs: Sequence[object]) -> Sequence[object]:
        """``envs`` with the instruction in their prompts.

        Raises:
            EvopromptError: it cannot be placed there.
        """
        candidate = self._candidate()
        for env in envs:
            question_of(env)  # refuses those in which nothing can be placed
            place(env, candidate, self._render)
        return envs[: self._most]

    async def compute_group_rewards(
        self, trajectory_group: list[HostTrajectory], env_group: Sequence[object]
    ) -> list[Reward]:
        """What the builder says."""
        return await self.inner.compute_group_rewards(trajectory_group, env_group)

    async def cleanup(self) -> None:
        """Cleans up as the builder does."""
        await self.inner.cleanup()

    def logging_tags(self) -> list[str]:
        """The builder's tags."""
        return self.inner.logging_tags()


class TestGroup(Group):
    """A group of a test, which tells how it went.

    Args:
        inner: the builder of the dataset.
        candidate: whom it asks under.
        render: places the instruction.
        ended: called with the rewards of its rollouts, none where it failed.
    """

    def __init__(
        self,
        inner: HostBuilder,
        candidate: Callable[[], Candidate],
        render: Render,
        ended: Callable[[Sequence[float]], None],
    ) -> None:
        super().__init__(inner, candidate, render)
        self._ended = ended
        self._rewards: Sequence[float] = ()

    async def make_envs(self) -> Sequence[object]:
        """The environments, in which rewards are known to be of an evaluation."""
        set_purpose("evaluate")
        self._rewards = ()
        return await super().make_envs()

    async def compute_group_rewards(
        self, trajectory_group: list[HostTrajectory], env_group: Sequence[object]
    ) -> list[Reward]:
        """What the builder says."""
        found = await super().compute_group_rewards(trajectory_group, env_group)
        # Tests have no rule for rollouts that a limit ended.
        self._rewards = rewards(trajectory_group, [reward for reward, _ in found], ())
        return found

    async def cleanup(self) -> None:
        """Cleans up; the group has come to its end."""
        try:
            await super().cleanup()
        finally:
            self._ended(self._rewards)


class TrainingGroup(Group):
    """A group of a training batch, which tells the batch how it went.

    Args:
        inner: the builder of the dataset.
        batch: decides under which candidate it asks.
        number: its place in the batch.
        render: places the instruction.
    """

    def __init__(self, inner: HostBuilder, batch: Batch, number: int, render: Render) -> None:
        super().__init__(inner, lambda: batch.candidate(number), render)
        self._batch = batch
        self._number = number

    async def begin(self, policy: object) -> None:
        """Returns when it is known under which candidate it asks."""
        await self._batch.opened(policy)

    def rolled_out(self, trajectories: list[HostTrajectory], envs: Sequence[object]) -> None:
        """Takes note of the rollouts that came to an end."""
        self._batch.reports[self._number].rolled_out(trajectories, envs)

    async def make_envs(self) -> Sequence[object]:
        """Those that the batch has prepared, and new ones for a second try."""
        ready = self._batch.take_envs(self._number)
        return await super().make_envs() if ready is None else ready

    async def compute_group_rewards(
        self, trajectory_group: list[HostTrajectory], env_group: Sequence[object]
    ) -> list[Reward]:
        """What the builder says; the engine's numbers will be among the metrics."""
        report = self._batch.reports[self._number]
        report.graded = True
        found = await self.inner.compute_group_rewards(trajectory_group, env_group)
        return report.said(found, self._batch.limited)

    async def cleanup(self) -> None:
        """Cleans up; the group has come to its end."""
        try:
            await self.inner.cleanup()
        finally:
            self._batch.finished(self._number)


@dataclass(frozen=True)  # as which the cookbook writes it down
class Watching(RolloutStrategy):  # type: ignore[misc]
    """The strategy of the training, which shows a batch the policy before it rolls a group out.

    Attributes:
        inner: the strategy.
    """

    inner: HostStrategy

    @property
    def catches_group_errors(self) -> bool:
        """As the strategy does."""
        return self.inner.catches_group_errors

    async def execute(self, env_group_builder: EnvGroupBuilder, policy: object) -> RolloutResult:
        """Rolls a group out, as the strategy does."""
        if not isinstance(env_group_builder, TrainingGroup):
            return await self.inner.execute(env_group_builder, policy)
        await env_group_builder.begin(policy)
        result = await self.inner.execute(env_group_builder, policy)
        env_group_builder.rolled_out(result.trajectories, result.envs)
        return result
