"""One training batch of the cookbook is one step of the engine; this is what happens in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tinker_cookbook.utils import logtree

from evoprompt.binding import Outcomes
from evoprompt.errors import InputError
from evoprompt.types import Assignment, Candidate, Question
from evoprompt_tinker.groups import Setup, TrainingGroup
from evoprompt_tinker.host import HostBuilder, HostTrajectory, Reward
from evoprompt_tinker.outcomes import outcomes, rewards
from evoprompt_tinker.prompts import holds, question_of, setting_of
from evoprompt_tinker.verification import VerificationRunner

if TYPE_CHECKING:
    from evoprompt_tinker.attachment import Training


@dataclass(slots=True)
class Report:
    """How a group went.

    Attributes:
        envs: made and not yet rolled out; an error if they could not be made.
        assignment: what it was asked; None where nothing could be.
        trajectories: of the rollouts that came to an end.
        ended: their environments.
        graded: whether the builder was asked for its rewards.
        added: these rewards; None until they are there.
        shown: metrics of a trajectory, which the cookbook averages over those that have them.
        finished: whether nothing more will come.
    """

    envs: Sequence[object] | BaseException | None = None
    assignment: Assignment | None = None
    trajectories: list[HostTrajectory] = field(default_factory=list)
    ended: Sequence[object] = ()
    graded: bool = False
    added: list[float] | None = None
    shown: dict[str, float] = field(default_factory=dict)
    finished: bool = False

    def rolled_out(self, trajectories: list[HostTrajectory], envs: Sequence[object]) -> None:
        """Takes note of rollouts."""
        self.trajectories, self.ended = trajectories, envs

    def said(self, found: Sequence[Reward], limited: Sequence[str]) -> list[Reward]:
        """Takes note of what the builder said of each trajectory, and returns it.

        The metrics of one trajectory will hold the engine's numbers: the first whose metrics the
        cookbook does not copy, as it does where a limit ended a rollout.
        """
        copies = [dict(metrics) for _, metrics in found]
        self.added = [reward for reward, _ in found]
        kept = (
            metrics
            for metrics, trajectory in zip(copies, self.trajectories, strict=True)
            if trajectory.stop_reason not in limited
        )
        self.shown = next(kept, {})
        return list(zip(self.added, copies, strict=True))

    def rewards(self, limited: Sequence[str]) -> list[float]:
        """One per trajectory; none where the builder failed to say its own."""
        if self.added is None:
            if self.graded:
                return []
            self.added = [0.0] * len(self.trajectories)  # nothing was graded: all ran out of time
        return rewards(self.trajectories, self.added, limited)


class Batch:
    """The groups of one batch, from the first that is rolled out to the last that is rewarded.

    Args:
        index: of the batch in the dataset.
        builders: of the dataset.
        setup: of the training.
        verification: rolls out for the engine.
        training: told when the engine has been told of everything, or of what went wrong.

    Attributes:
        groups: the builders to train on.
        reports: how each of them went.
    """

    def __init__(
        self,
        index: int,
        builders: Sequence[HostBuilder],
        setup: Setup,
        verification: VerificationRunner,
        training: Training,
    ) -> None:
        self.setup = setup
        self._index = index
        self._verification = verification
        self._training = training
        self._opening: asyncio.Task[None] | None = None
        self._builders = builders
        self.groups = [
            TrainingGroup(builder, self, number, setup.render)
            for number, builder in enumerate(builders)
        ]
        self.reports = [Report() for _ in builders]

    @property
    def unfinished(self) -> int:
        """Groups that are still out."""
        return sum(not report.finished for report in self.reports)

    async def opened(self, policy: object) -> None:
        """Returns when every group knows its candidate; the first caller's policy verifies."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open(policy))
        await asyncio.shield(self._opening)

    async def _open(self, policy: object) -> None:
        try:
            made = await asyncio.gather(
                *(builder.make_envs() for builder in self._builders), return_exceptions=True
            )
            for report, envs in zip(self.reports, made, strict=True):
                report.envs = envs
            await self._ask(policy)
        except BaseException as error:
            self._training.failed(error)
            raise

    async def _ask(self, policy: object) -> None:
        """Draws the candidate of each group whose environments could be made."""
        made = {
            number: report.envs
            for number, report in enumerate(self.reports)
            if report.envs and not isinstance(report.envs, BaseException)
        }
        sizes = {len(envs) for envs in made.values()}
        if len(sizes) > 1:
            raise InputError(
                f"the groups of batch {self._index} have {', '.join(map(str, sorted(sizes)))} "
                "environments; required: the same number in all groups of a batch; make them equal"
            )
        questions = [
            Question(
                f"{self._index}.{number}",
                question_of(envs[0]),
                row={"batch": self._index, "group": number},
            )
            for number, envs in made.items()
        ]
        if made:
            self._tell_of_setting(next(iter(made.values()))[0])
        loop = asyncio.get_running_loop()

        def rollout(assignments: Sequence[Assignment]) -> Sequence[Outcomes]:
            rolled = self._verification.roll(assignments, policy)
            return asyncio.run_coroutine_threadsafe(rolled, loop).result()

        # In a thread, for rollouts of verification run here.
        begin, rollouts = self.setup.binding.begin, max(sizes, default=1)
        with logtree.scope_disable():
            assignments = await asyncio.to_thread(begin, questions, rollouts, rollout)
        for (number, envs), assignment in zip(made.items(), assignments, strict=True):
            self.reports[number].assignment = assignment
            # Here and not when they are rolled out: a strategy might leave an error out.
            self.groups[number].prepared(envs)

    def _tell_of_setting(self, env: object) -> None:
        """Lets the proposer know how the first environment of the training asks and scores."""
        engine = self.setup.binding.engine
        if not (engine.setting.prompt or engine.setting.reward):
            engine.setting = setting_of(env, self.setup.render)

    def candidate(self, number: int) -> Candidate:
        """Whom a group asks under."""
        assignment = self.reports[number].assignment
        # Environments that could not be made at first, and then could, have drawn nobody.
        return assignment.candidate if assignment else self.setup.binding.engine.best

    def take_envs(self, number: int) -> Sequence[object] | None:
        """The environments that were made for a group, once; raises what making them raised."""
        report = self.reports[number]
        envs, report.envs = report.envs, None
        if isinstance(envs, BaseException):
            raise envs
        return envs

    def finished(self, number: int) -> None:
        """Takes note that a group came to its end; the last one ends the step."""
        self.reports[number].finished = True
        if self.unfinished or self._opening is None or not self._opening.done():
            return
        if self._opening.cancelled() or self._opening.exception():
            return  # said already
        try:
            self._tell()
        except BaseException as error:
            self._training.failed(error)
            raise
        self._training.stepped()

    def _tell(self) -> None:
        self._require_instructions()
        setup, told = self.setup, []
        for report in self.reports:
            if report.assignment is not None:
                scored = report.rewards(setup.limited)
                ended, envs = report.trajectories[: len(scored)], report.ended[: len(scored)]
                found = outcomes(ended, scored, envs, setup.tokenizer)
                told.append((report.assignment, found))
        setup.binding.end(told)
        numbers = setup.binding.metrics()
        for report in self.reports:
            report.shown.update(numbers)

    def _require_instructions(self) -> None:
        """Ends a training whose first prompts held no instruction."""
        binding = self.setup.binding
        if binding.placed:
            return
        found = [
            holds(self.setup.tokenizer, trajectory.transitions[0].ob, report.assignment.candidate)
            for report in self.reports
            if report.assignment
            for trajectory in report.trajectories
            if trajectory.transitions
        ]
        if found:
            binding.require_placed(
                [any(found)],
                "the renderer or a subclass of ProblemEnv builds prompts without convo_prefix",
            )
