"""One training batch of the cookbook is one step of the engine; this is what happens in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tinker_cookbook.utils import logtree

from evoprompt.hosting.binding import Outcomes, RolloutOutcome
from evoprompt.hosting.rows import ASKED_BY_ENVIRONMENT, digest_of
from evoprompt.support.errors import InputError
from evoprompt.types import Assignment, Question
from evoprompt_tinker.groups import Setup, TrainingGroup
from evoprompt_tinker.host import HostBuilder
from evoprompt_tinker.outcomes import outcomes
from evoprompt_tinker.prompts import holds, question_of, setting_of
from evoprompt_tinker.verification import CookbookVerification


class BatchListener(Protocol):
    """Training of a batch, which is notified of its end."""

    def warn_of_mixed_group(self, number: int) -> None:
        """Warn that the environments of group ``number`` ask different questions."""

    def record_failure(self, error: BaseException) -> None:
        """Record the error of a batch."""

    def complete_step(self) -> None:
        """Complete the step of a batch without an error."""


class Batch:
    """Groups of one batch, from the first rollout to the last reward.

    Args:
        index: index of the batch in the dataset.
        builders: builders of the dataset.
        setup: setup of the training.
        verification: rolls out for the engine.
        training: listener that is notified at the end of the batch, or of its error.

    Attributes:
        groups: the builders to train on.
    """

    def __init__(
        self,
        index: int,
        builders: Sequence[HostBuilder],
        setup: Setup,
        verification: CookbookVerification,
        training: BatchListener,
    ) -> None:
        self.setup = setup
        self._index = index
        self._verification = verification
        self._training = training
        self._opening: asyncio.Task[None] | None = None
        self.groups = [TrainingGroup(builder, self) for builder in builders]

    @property
    def unfinished(self) -> int:
        """Return the number of groups that are not finished."""
        return sum(not group.finished for group in self.groups)

    async def open_groups(self, policy: object) -> None:
        """Wait until every group has its candidates; the first caller's policy verifies."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open(policy))
        await asyncio.shield(self._opening)

    async def _open(self, policy: object) -> None:
        try:
            envs_or_errors = await asyncio.gather(
                *(group.build() for group in self.groups), return_exceptions=True
            )
            for group, envs in zip(self.groups, envs_or_errors, strict=True):
                group.envs = envs
            await self._ask(policy)
        except BaseException as error:
            self._training.record_failure(error)
            raise

    async def _ask(self, policy: object) -> None:
        """Draw candidates for each group, unless making its environments failed."""
        envs_by_group = {
            number: envs
            for number, group in enumerate(self.groups)
            if (envs := group.envs) and not isinstance(envs, BaseException)
        }
        sizes = {len(envs) for envs in envs_by_group.values()}
        if len(sizes) > 1:
            raise InputError(
                f"the groups of batch {self._index} have {', '.join(map(str, sorted(sizes)))} "
                "environments; required: the same number in all groups of a batch; make them equal"
            )
        questions = [
            self._question(number, [question_of(env) for env in envs])
            for number, envs in envs_by_group.items()
        ]
        if envs_by_group:
            self._tell_of_setting(next(iter(envs_by_group.values()))[0])
        loop = asyncio.get_running_loop()

        def rollout(assignments: Sequence[Assignment]) -> Sequence[Outcomes]:
            rolled = self._verification.roll(assignments, policy)
            return asyncio.run_coroutine_threadsafe(rolled, loop).result()

        binding = self.setup.binding
        rollouts = binding.engine.divide_rollouts(
            max(sizes, default=1), "the size of a group", compared=False
        )
        # In a thread, for rollouts of verification run here.
        with logtree.scope_disable():
            drawn = iter(await asyncio.to_thread(binding.begin, questions, rollouts, rollout))
        several = binding.engine.selection.candidates_per_question
        for number, envs in envs_by_group.items():
            self.groups[number].assignments = [next(drawn) for _ in range(several)]
            # Here and not when they are rolled out: a strategy might leave an error out.
            self.groups[number].prepared(envs)

    def _question(self, number: int, texts: Sequence[str]) -> Question:
        """Return the question of a group; an open one where its environments ask different ones."""
        text, group = texts[0], self.groups[number]
        if len(set(texts)) > 1:
            self._training.warn_of_mixed_group(number)
            text, group.is_mixed = ASKED_BY_ENVIRONMENT, True
        identity = f"{self._index}.{number}-{digest_of(list(texts))}"
        return Question(identity, text, row={"batch": self._index, "group": number})

    def _tell_of_setting(self, env: object) -> None:
        """Give the proposer the questions and scoring of the first environment of the training."""
        engine = self.setup.binding.engine
        if not (engine.setting.prompt or engine.setting.reward):
            engine.setting = setting_of(env, self.setup.render)

    def record_group_end(self) -> None:
        """Record a finished group; the last one ends the step."""
        if self.unfinished or self._opening is None or not self._opening.done():
            return
        if self._opening.cancelled() or self._opening.exception():
            return  # said already
        try:
            self._tell()
        except BaseException as error:
            self._training.record_failure(error)
            raise
        self._training.complete_step()

    def _tell(self) -> None:
        self._require_instructions()
        setup, assignment_outcomes = self.setup, []
        for group in self.groups:
            rewards = group.rewards() if group.assignments else []
            envs, count = group.ended[: len(rewards)], len(rewards)
            rolled = outcomes(group.trajectories[:count], rewards, envs, setup.tokenizer)
            of_env = {id(env): outcome for env, outcome in zip(envs, rolled, strict=True)}
            of_assignment: dict[str, list[RolloutOutcome | None]] = {
                assignment.id: [] for assignment in group.assignments
            }
            for env, assignment in group.rolled_out:  # in the order in which they were begun
                if id(env) in of_env:
                    of_assignment[assignment.id].append(of_env[id(env)])
            assignment_outcomes += [(each, of_assignment[each.id]) for each in group.assignments]
        setup.binding.end(assignment_outcomes)
        numbers = setup.binding.metrics()
        for group in self.groups:
            group.shown.update(numbers)

    def _require_instructions(self) -> None:
        """End a training without an instruction in its first prompts."""
        binding = self.setup.binding
        if binding.placed:
            return
        has_instruction = [
            holds(self.setup.tokenizer, trajectory.transitions[0].ob, candidates[id(env)])
            for group in self.groups
            for candidates in [{id(env): each.candidate for env, each in group.rolled_out}]
            for trajectory, env in zip(group.trajectories, group.ended, strict=True)
            if trajectory.transitions and id(env) in candidates
        ]
        if has_instruction:
            binding.require_instruction_in_prompts(
                [any(has_instruction)],
                "the renderer or a subclass of ProblemEnv builds prompts without convo_prefix",
            )
