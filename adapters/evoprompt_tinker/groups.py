"""Builders around the cookbook's own: one question and one candidate each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinker_cookbook.rl.rollout_strategy import RolloutResult, RolloutStrategy
from tinker_cookbook.rl.types import EnvGroupBuilder

from evoprompt.binding import Binding, set_purpose
from evoprompt.prompts import Render
from evoprompt.types import Candidate
from evoprompt_tinker.host import (
    HostBuilder,
    HostStrategy,
    HostTermination,
    HostTokenizer,
    HostTrajectory,
    Reward,
)
from evoprompt_tinker.outcomes import rewards
from evoprompt_tinker.prompts import place, question_of

if TYPE_CHECKING:
    from evoprompt_tinker.attachment import Test
    from evoprompt_tinker.batch import Batch


@dataclass(frozen=True, slots=True)
class Setup:
    """What the rollouts of a training are made with.

    Attributes:
        binding: of the engine.
        render: places the instruction.
        tokenizer: of the model.
        strategy: of the training, for rollouts that fail.
        termination: its rule for rewards of rollouts that a limit ended.
    """

    binding: Binding
    render: Render
    tokenizer: HostTokenizer
    strategy: HostStrategy
    termination: HostTermination | None

    @property
    def limited(self) -> tuple[str, ...]:
        """Reasons to stop a rollout whose reward is then at most 0."""
        rule = self.termination
        return rule.limit_stop_reasons if rule and rule.zero_reward_on_limit else ()


class Group(EnvGroupBuilder):  # type: ignore[misc]
    """A builder whose environments ask under a candidate; everything else is its own.

    Args:
        inner: the builder of the dataset.
        render: places the instruction.
        candidate: whom it asks under, if that is known already.
        most: environments to make; None for as many as the builder makes.
    """

    def __init__(
        self,
        inner: HostBuilder,
        render: Render,
        candidate: Candidate | None = None,
        most: int | None = None,
    ) -> None:
        self.inner = inner
        self._render = render
        self._known = candidate
        self._most = most

    def candidate(self) -> Candidate:
        """Whom it asks under; looked up whenever environments are made."""
        assert self._known is not None
        return self._known

    async def make_envs(self) -> Sequence[object]:
        """The environments of the builder, with the instruction in their prompts."""
        return self.prepared(await self.inner.make_envs())

    def prepared(self, envs: Sequence[object]) -> Sequence[object]:
        """``envs`` with the instruction in their prompts.

        Raises:
            EvopromptError: it cannot be placed there.
        """
        candidate = self.candidate()
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
    """A group of a test, with the best candidate of the moment; it reports how it went.

    Args:
        inner: the builder of the dataset.
        setup: of the training.
        test: told of the rewards of its rollouts, none where it failed.
    """

    def __init__(self, inner: HostBuilder, setup: Setup, test: Test) -> None:
        super().__init__(inner, setup.render)
        self._setup = setup
        self._test = test
        self._rewards: Sequence[float] = ()

    def candidate(self) -> Candidate:
        """The best one."""
        return self._setup.binding.engine.best

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
            self._test.ended(self._rewards)


class TrainingGroup(Group):
    """A group of a training batch, which tells the batch how it went.

    Args:
        inner: the builder of the dataset.
        batch: decides under which candidate it asks.
        number: its place in the batch.
        render: places the instruction.
    """

    def __init__(self, inner: HostBuilder, batch: Batch, number: int, render: Render) -> None:
        super().__init__(inner, render)
        self._batch = batch
        self._number = number

    def candidate(self) -> Candidate:
        """That of the batch."""
        return self._batch.candidate(self._number)

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
        return report.said(found, self._batch.setup.limited)

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
