"""One training batch of the cookbook is one step of the engine; this is what happens in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evoprompt.binding import Binding
from evoprompt.errors import InputError
from evoprompt.prompts import Render
from evoprompt.types import Assignment, Candidate, Question
from evoprompt_tinker.groups import TrainingGroup
from evoprompt_tinker.host import (
    HostBuilder,
    HostTermination,
    HostTokenizer,
    HostTrajectory,
    Reward,
)
from evoprompt_tinker.outcomes import OWN, rewards, told
from evoprompt_tinker.prompts import holds, question_of, setting_of
from evoprompt_tinker.verification import Verification


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
        binding: its engine is asked, told, evolved.
        index: of the batch in the dataset.
        builders: of the dataset.
        render: places the instruction.
        verification: rolls out for the engine.
        tokenizer: of the model.
        termination: the training's rule for rewards of rollouts that a limit ended.
        closed: called when the engine has been told of everything, or with what went wrong.

    Attributes:
        groups: the builders to train on.
        reports: how each of them went.
    """

    def __init__(
        self,
        binding: Binding,
        index: int,
        builders: Sequence[HostBuilder],
        render: Render,
        verification: Verification,
        tokenizer: HostTokenizer,
        termination: HostTermination | None,
        closed: Callable[[BaseException | None], None],
    ) -> None:
        self._binding = binding
        self._engine = binding.engine
        self._index = index
        self._verification = verification
        self._tokenizer = tokenizer
        self._render = render
        self._termination = termination
        self._closed = closed
        self._opening: asyncio.Task[None] | None = None
        self._builders = builders
        self.groups = [
            TrainingGroup(builder, self, number, render) for number, builder in enumerate(builders)
        ]
        self.reports = [Report() for _ in builders]

    @property
    def limited(self) -> tuple[str, ...]:
        """Reasons to stop a rollout whose reward is then at most 0."""
        rule = self._termination
        return rule.limit_stop_reasons if rule and rule.zero_reward_on_limit else ()

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
            if self._engine.evolution_due:
                await self._verification.evolve(policy)
            made = await asyncio.gather(
                *(builder.make_envs() for builder in self._builders), return_exceptions=True
            )
            for report, envs in zip(self.reports, made, strict=True):
                report.envs = envs
            self._ask()
        except BaseException as error:
            self._closed(error)
            raise

    def _ask(self) -> None:
        """Draws the candidate of each group whose environments could be made."""
        asked: dict[int, Question] = {}
        made: dict[int, Sequence[object]] = {}
        sizes: set[int] = set()
        for number, report in enumerate(self.reports):
            if isinstance(report.envs, BaseException) or not report.envs:
                continue
            sizes.add(len(report.envs))
            made[number] = report.envs
            asked[number] = Question(
                f"{self._index}.{number}",
                question_of(report.envs[0]),
                row={"batch": self._index, "group": number},
            )
        if len(sizes) > 1:
            raise InputError(
                f"the groups of batch {self._index} have {', '.join(map(str, sorted(sizes)))} "
                "environments; required: the same number in all groups of a batch; make them equal"
            )
        if asked:
            assignments = self._engine.ask(list(asked.values()), rollouts=sizes.pop())
            self._tell_of_setting(next(iter(made.values()))[0])
            for number, assignment in zip(asked, assignments, strict=True):
                report = self.reports[number]
                report.assignment = assignment
                # Here and not when they are rolled out: a strategy might leave an error out.
                self.groups[number].prepared(made[number])

    def _tell_of_setting(self, env: object) -> None:
        """Lets the proposer know how the first environment of the training asks and scores."""
        known = self._engine.setting
        if not (known.prompt or known.reward):
            self._engine.setting = setting_of(env, self._render)

    def candidate(self, number: int) -> Candidate:
        """Whom a group asks under."""
        assignment = self.reports[number].assignment
        # Environments that could not be made at first, and then could, have drawn nobody.
        return assignment.candidate if assignment else self._engine.best

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
            self._closed(error)
            raise
        self._closed(None)

    def _tell(self) -> None:
        self._require_instructions()
        trajectories = []
        for report in self.reports:
            if report.assignment is None:
                continue
            scored = report.rewards(self.limited)
            ended = report.trajectories[: len(scored)]
            envs = report.ended[: len(scored)]
            trajectories += told(report.assignment, ended, scored, envs, self._tokenizer)
        self._engine.tell(trajectories)
        numbers = {OWN + name: value for name, value in self._binding.metrics().items()}
        for report in self.reports:
            report.shown.update(numbers)

    def _require_instructions(self) -> None:
        """Ends a training whose first prompts held no instruction."""
        if self._engine.step:
            return
        seen = [
            holds(self._tokenizer, trajectory.transitions[0].ob, report.assignment.candidate)
            for report in self.reports
            if report.assignment
            for trajectory in report.trajectories
            if trajectory.transitions
        ]
        if seen and not any(seen):
            raise InputError(
                "no prompt of the first batch held an instruction: the policy is trained without "
                "one and nothing evolves; required: the messages that evoprompt writes reach the "
                "policy; check the render function, the renderer, and whether a subclass of "
                "ProblemEnv builds its prompts without convo_prefix"
            )
