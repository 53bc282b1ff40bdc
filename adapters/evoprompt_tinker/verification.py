"""Verification with the policy of the moment: questions of earlier batches, rolled out again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import numpy as np
import torch
from tinker_cookbook.exceptions import AllTrajectoriesFailedError
from tinker_cookbook.rl.rollouts import do_group_rollout

from evoprompt.hosting.binding import Outcomes, RolloutOutcome
from evoprompt.log.events import Notice
from evoprompt.types import Assignment
from evoprompt_tinker.groups import Group, Setup
from evoprompt_tinker.host import HostBuilder, HostDataset
from evoprompt_tinker.outcomes import outcomes

_KEPT = 64  # number of batches with remembered builders


class CookbookVerification:
    """Rolls questions of earlier batches out under candidates that ask for admission.

    Args:
        setup: of the training.
        dataset: makes the builder of a question again.
    """

    def __init__(self, setup: Setup, dataset: HostDataset) -> None:
        self._setup = setup
        self._dataset = dataset
        self._batches: dict[int, Sequence[HostBuilder]] = {}

    def remember(self, index: int, builders: Sequence[HostBuilder]) -> None:
        """Keep the builders of a batch, as reading a batch again may draw other questions."""
        self._batches.pop(index, None)
        self._batches[index] = builders
        for oldest in list(self._batches)[:-_KEPT]:
            del self._batches[oldest]

    async def roll(self, assignments: Sequence[Assignment], policy: object) -> list[Outcomes]:
        """Return the outcomes of all assignments, rolled out concurrently.

        Environments may draw their problems: the random generators are restored afterwards.

        Args:
            assignments: assignments of the engine.
            policy: samples from the current weights.
        """
        python_state, numpy_state = random.getstate(), np.random.get_state()
        try:
            with torch.random.fork_rng(devices=[]):
                return await asyncio.gather(*(self._one(each, policy) for each in assignments))
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)

    async def _one(self, assignment: Assignment, policy: object) -> Outcomes:
        """Return the outcomes of as many groups as make the rollouts of ``assignment``."""
        rolled: list[RolloutOutcome | None] = []
        while len(rolled) < assignment.rollouts:
            group_outcomes = await self._roll_group(assignment, policy)
            rolled += group_outcomes
            if not group_outcomes:
                break
        return rolled

    async def _roll_group(self, assignment: Assignment, policy: object) -> Outcomes:
        setup = self._setup
        group = Group(self._builder(assignment), setup, assignment.candidate)
        try:
            result = await do_group_rollout(
                group, policy, strategy=setup.strategy, termination=setup.termination
            )
        except AllTrajectoriesFailedError as error:
            return self._failed(assignment, error)
        except Exception as error:
            if not setup.strategy.catches_group_errors:
                raise
            return self._failed(assignment, error)
        trajectories = result.trajectories_G
        unknown = [None] * len(trajectories)
        return outcomes(trajectories, result.get_total_rewards(), unknown, setup.tokenizer)

    def _failed(self, assignment: Assignment, error: Exception) -> Outcomes:
        """No reward for any rollout, as in a training batch that leaves the group out."""
        engine = self._setup.binding.engine
        engine.log.append(
            Notice(
                engine.step,
                f"a verification of {assignment.candidate.id} failed: {type(error).__name__}: "
                f"{error}",
            )
        )
        return ()

    def _builder(self, assignment: Assignment) -> HostBuilder:
        row = assignment.question.row
        batch = int(str(row["batch"]))
        if batch not in self._batches:  # after a resume, or a long time
            self.remember(batch, self._dataset.get_batch(batch))
        return self._batches[batch][int(str(row["group"]))]
