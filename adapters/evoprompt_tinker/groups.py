"""Builders around the cookbook's own: one question each, and a candidate for each rollout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Protocol

from tinker_cookbook.rl.rollout_strategy import RolloutResult, RolloutStrategy
from tinker_cookbook.rl.types import EnvGroupBuilder

from evoprompt.hosting.binding import Binding, set_purpose
from evoprompt.hosting.prompts import Render
from evoprompt.support.calls import calling
from evoprompt.support.waiting import Report
from evoprompt.types import Assignment, Candidate
from evoprompt_tinker.host import (
    HostBuilder,
    HostStrategy,
    HostTermination,
    HostTokenizer,
    HostTrajectory,
    Reward,
)
from evoprompt_tinker.outcomes import rewards
from evoprompt_tinker.prompts import ASKED, place, question_of, restore_prefix


@dataclass(frozen=True, slots=True)
class Setup:
    """Objects that the rollouts of a training need.

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
        """Return the reasons to stop after which a reward is at most 0."""
        rule = self.termination
        return rule.limit_stop_reasons if rule and rule.zero_reward_on_limit else ()


class Group(EnvGroupBuilder):  # type: ignore[misc]
    """Builder of environments with the instruction of a candidate in the prompts of each.

    Args:
        inner: the builder of the dataset.
        setup: setup of the training.
        candidate: the candidate of all environments, if it is known already.
    """

    def __init__(
        self, inner: HostBuilder, setup: Setup, candidate: Candidate | None = None
    ) -> None:
        self.inner = inner
        self._render = setup.render
        self._report = setup.binding.engine.log.report_wait
        self._known = candidate

    def candidates(self, envs: Sequence[object]) -> Sequence[Candidate]:
        """Return the candidate of each of ``envs``; read whenever environments are made."""
        assert self._known is not None
        return [self._known] * len(envs)

    async def make_envs(self) -> Sequence[object]:
        """Return the environments of the builder, with an instruction in the prompts of each."""
        return self.prepared(await self.build())

    async def build(self) -> Sequence[object]:
        """Return the environments of the builder as they are."""
        with calling("builder", self.inner, self._report):
            return await self.inner.make_envs()

    def prepared(self, envs: Sequence[object]) -> Sequence[object]:
        """``envs`` with an instruction in the prompts of each.

        Raises:
            EvopromptError: it cannot be placed there.
        """
        for env, candidate in zip(envs, self.candidates(envs), strict=True):
            question_of(env)  # refuses those in which nothing can be placed
            place(env, candidate, self._render)
            _name_steps(env, self._report)
        return envs

    async def compute_group_rewards(
        self, trajectory_group: list[HostTrajectory], env_group: Sequence[object]
    ) -> list[Reward]:
        """Return the rewards of the builder, which finds no instruction in the environments."""
        for env in env_group:
            restore_prefix(env)
        with calling("reward function of the builder", self.inner, self._report):
            return await self.inner.compute_group_rewards(trajectory_group, env_group)

    async def cleanup(self) -> None:
        """Clean up as the builder does."""
        await self.inner.cleanup()

    def logging_tags(self) -> list[str]:
        """Return the builder's tags."""
        return self.inner.logging_tags()


class _Rollout:
    """Rollout of an environment, by the task that it runs in.

    Args:
        env: the environment, whose first observation begins the rollout.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self._task: asyncio.Task[Any] | None = None
        begin = env.initial_observation

        async def begun() -> Any:
            self._task = asyncio.current_task()
            return await begin()

        env.initial_observation = begun

    @property
    def has_failed(self) -> bool:
        """Return whether the rollout has ended without a trajectory."""
        task = self._task
        return task is not None and task.done() and (task.cancelled() or bool(task.exception()))


def _name_steps(env: Any, report: Report) -> None:
    """Name an environment whose ``step``, which scores, does not return or ends the process."""
    step, named = env.step, getattr(env, "message_env", env)

    async def stepped(*args: Any, **settings: Any) -> Any:
        with calling("environment", named, report):
            return await step(*args, **settings)

    env.step = stepped


class TestGroup(Group):
    """Group of a test, with the current best candidate; it reports its rewards.

    Args:
        inner: the builder of the dataset.
        setup: setup of the training.
        record_end: is called at the end of the group with its rewards; with none if it failed.
    """

    def __init__(
        self,
        inner: HostBuilder,
        setup: Setup,
        record_end: Callable[[Sequence[float]], None],
    ) -> None:
        super().__init__(inner, setup)
        self._setup = setup
        self._record_end = record_end
        self._rewards: Sequence[float] = ()

    def candidates(self, envs: Sequence[object]) -> Sequence[Candidate]:
        """Return the best candidate for each."""
        return [self._setup.binding.engine.best] * len(envs)

    async def make_envs(self) -> Sequence[object]:
        """Return the environments, with the purpose of an evaluation."""
        set_purpose("evaluate")
        self._rewards = ()
        return await super().make_envs()

    async def compute_group_rewards(
        self, trajectory_group: list[HostTrajectory], env_group: Sequence[object]
    ) -> list[Reward]:
        """Return the rewards of the builder."""
        rewards_and_metrics = await super().compute_group_rewards(trajectory_group, env_group)
        # Tests have no rule for rollouts that a limit ended.
        self._rewards = rewards(trajectory_group, [reward for reward, _ in rewards_and_metrics], ())
        return rewards_and_metrics

    async def cleanup(self) -> None:
        """Clean up, and report the end of the group."""
        try:
            await super().cleanup()
        finally:
            self._record_end(self._rewards)


class GroupOwner(Protocol):
    """Batch of a training, to its groups."""

    setup: Setup

    async def open_groups(self, policy: object) -> None:
        """Wait until every group has its candidate."""

    def record_group_end(self) -> None:
        """Record a finished group."""


class TrainingGroup(Group):
    """A group of a training batch, and how it went.

    Args:
        inner: the builder of the dataset.
        batch: the batch of the group, which draws its candidates and is notified of its end.

    Attributes:
        batch: the batch of the group.
        envs: made and not yet rolled out; an error if they could not be made.
        assignments: what it was asked, one for each candidate; none where nothing could be.
        trajectories: of the rollouts that came to an end.
        ended: their environments.
        shown: metrics of a trajectory, which the cookbook averages over those that have them.
        finished: whether nothing more will come.
        is_mixed: whether its environments ask different questions, so that each rollout shows its
            own as its first observation.
    """

    def __init__(self, inner: HostBuilder, batch: GroupOwner) -> None:
        super().__init__(inner, batch.setup)
        self.batch = batch
        self.envs: Sequence[object] | BaseException | None = None
        self.assignments: Sequence[Assignment] = ()
        self.trajectories: list[HostTrajectory] = []
        self.ended: Sequence[object] = ()
        self.shown: dict[str, float] = {}
        self.finished = False
        self.is_mixed = False
        self._graded = False
        self._added: list[float] | None = None
        self._rolled: list[tuple[_Rollout, Assignment]] = []

    def candidates(self, envs: Sequence[object]) -> Sequence[Candidate]:
        """Return the candidate of each, in the order of the assignments.

        A strategy that repeats a failed rollout takes the first environment of a new group for it,
        which gets the candidate of that rollout.
        """
        if not self.assignments:
            # Making the environments failed at first and succeeded later.
            return [self.batch.setup.binding.engine.best] * len(envs)
        order = [each for each in self.assignments for _ in range(each.rollouts)]
        failed = [pair for pair in self._rolled if pair[0].has_failed]
        for pair in failed[:1]:
            self._rolled.remove(pair)
            order.insert(0, pair[1])
        rollouts = list(zip(map(_Rollout, envs), cycle(order)))
        self._rolled += rollouts
        return [assignment.candidate for _, assignment in rollouts]

    @property
    def rolled_out(self) -> list[tuple[object, Assignment]]:
        """Return the environments with an assignment, in the order in which they were made."""
        return [(rollout.env, assignment) for rollout, assignment in self._rolled]

    async def make_envs(self) -> Sequence[object]:
        """Those that the batch has prepared, once, and new ones for a second try."""
        ready, self.envs = self.envs, None
        if self.is_mixed and not isinstance(ready, BaseException):
            for env in ready or ():
                setattr(env, ASKED, question_of(env))
        if isinstance(ready, BaseException):
            raise ready
        return await super().make_envs() if ready is None else ready

    async def compute_group_rewards(
        self, trajectory_group: list[HostTrajectory], env_group: Sequence[object]
    ) -> list[Reward]:
        """Return the rewards of the builder; add the engine's metrics to those of one trajectory.

        It is the first whose metrics the cookbook does not copy, as it does where a limit ended a
        rollout.
        """
        self._graded = True
        rewards_and_metrics = await super().compute_group_rewards(trajectory_group, env_group)
        copies = [dict(metrics) for _, metrics in rewards_and_metrics]
        self._added = [reward for reward, _ in rewards_and_metrics]
        uncopied_metrics = (
            metrics
            for metrics, trajectory in zip(copies, self.trajectories, strict=True)
            if trajectory.stop_reason not in self.batch.setup.limited
        )
        self.shown = next(uncopied_metrics, {})
        return list(zip(self._added, copies, strict=True))

    def rewards(self) -> list[float]:
        """Return one reward per trajectory; none if the builder failed."""
        if self._added is None:
            if self._graded:
                return []
            self._added = [0.0] * len(self.trajectories)  # nothing was graded: all ran out of time
        return rewards(self.trajectories, self._added, self.batch.setup.limited)

    async def cleanup(self) -> None:
        """Clean up, and report the end of the group."""
        try:
            await super().cleanup()
        finally:
            self.finished = True
            self.batch.record_group_end()


@dataclass(frozen=True)  # as which the cookbook writes it down
class Watching(RolloutStrategy):  # type: ignore[misc]
    """The strategy of the training, which shows a batch the policy before it rolls a group out.

    Attributes:
        inner: the strategy.
    """

    inner: HostStrategy

    @property
    def catches_group_errors(self) -> bool:
        """Return the value of the strategy."""
        return self.inner.catches_group_errors

    async def execute(self, env_group_builder: EnvGroupBuilder, policy: object) -> RolloutResult:
        """Roll a group out, as the strategy does."""
        if not isinstance(env_group_builder, TrainingGroup):
            return await self.inner.execute(env_group_builder, policy)
        await env_group_builder.batch.open_groups(policy)
        result = await self.inner.execute(env_group_builder, policy)
        env_group_builder.trajectories = result.trajectories
        env_group_builder.ended = result.envs
        return result
