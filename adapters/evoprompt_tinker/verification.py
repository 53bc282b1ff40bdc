"""Evolution with the policy of the moment, without a trace in the training's logs."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from tinker_cookbook.exceptions import AllTrajectoriesFailedError
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.utils import logtree

from evoprompt.binding import Binding
from evoprompt.events import Notice
from evoprompt.prompts import Render
from evoprompt.types import Assignment, Trajectory
from evoprompt_tinker.groups import Group
from evoprompt_tinker.host import (
    HostBuilder,
    HostDataset,
    HostStrategy,
    HostTermination,
    HostTokenizer,
)
from evoprompt_tinker.outcomes import told

_KEPT = 64  # batches whose builders are remembered


class Verification:
    """Rolls questions of earlier batches out under candidates that ask for admission.

    Args:
        binding: its engine is evolved.
        dataset: makes the builder of a question again.
        render: places the instruction.
        strategy: of the training, for rollouts that fail.
        termination: its rule for rewards of rollouts that a limit ended.
        tokenizer: of the model.
    """

    def __init__(
        self,
        binding: Binding,
        dataset: HostDataset,
        render: Render,
        strategy: HostStrategy,
        termination: HostTermination | None,
        tokenizer: HostTokenizer,
    ) -> None:
        self._binding = binding
        self._engine = binding.engine
        self._dataset = dataset
        self._render = render
        self._strategy = strategy
        self._termination = termination
        self._tokenizer = tokenizer
        self._batches: OrderedDict[int, Sequence[HostBuilder]] = OrderedDict()

    async def evolve(self, policy: object) -> None:
        """Lets the engine evolve in a thread; its rollouts run here, all at once.

        Args:
            policy: samples from the weights of the moment.
        """
        loop = asyncio.get_running_loop()

        def rollout(assignments: Sequence[Assignment]) -> list[Trajectory]:
            rolled = asyncio.run_coroutine_threadsafe(self._all(assignments, policy), loop)
            return rolled.result()

        with logtree.scope_disable():
            await asyncio.to_thread(self._binding.evolve, rollout)

    async def _all(self, assignments: Sequence[Assignment], policy: object) -> list[Trajectory]:
        found = await asyncio.gather(*(self._one(each, policy) for each in assignments))
        return [trajectory for group in found for trajectory in group]

    async def _one(self, assignment: Assignment, policy: object) -> list[Trajectory]:
        group = Group(
            self._builder(assignment),
            lambda: assignment.candidate,
            self._render,
            assignment.rollouts,
        )
        try:
            result = await do_group_rollout(
                group, policy, strategy=self._strategy, termination=self._termination
            )
        except AllTrajectoriesFailedError as error:
            return self._failed(assignment, error)
        except Exception as error:
            if not self._strategy.catches_group_errors:
                raise
            return self._failed(assignment, error)
        trajectories = result.trajectories_G
        scored = result.get_total_rewards()
        unknown = [None] * len(trajectories)
        return told(assignment, trajectories, scored, unknown, self._tokenizer)

    def _failed(self, assignment: Assignment, error: Exception) -> list[Trajectory]:
        """No reward for any rollout, as in a training batch that leaves the group out."""
        self._engine.log.append(
            Notice(
                self._engine.step,
                f"a verification of {assignment.candidate.id} failed: {type(error).__name__}: "
                f"{error}",
            )
        )
        return told(assignment, (), (), (), self._tokenizer)

    def _builder(self, assignment: Assignment) -> HostBuilder:
        row = assignment.question.row
        batch, group = int(str(row["batch"])), int(str(row["group"]))
        if batch not in self._batches:
            self._batches[batch] = self._dataset.get_batch(batch)
            if len(self._batches) > _KEPT:
                self._batches.popitem(last=False)
        return self._batches[batch][group]
