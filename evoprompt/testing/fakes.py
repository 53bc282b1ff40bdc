"""Fakes of the environment of a component in a run: a policy, a trainer and a task."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from evoprompt.engine import Engine
from evoprompt.proposers.bank import BankOwner, SentenceBank
from evoprompt.roles import Attributor, RolloutFn
from evoprompt.support.leads import Lead
from evoprompt.testing import samples
from evoprompt.types import Assignment, Candidate, CandidateStats, Question, Trajectory


class ScriptedPolicy:
    """Rollout function that scores by a script and records its assignments.

    Args:
        reward: the reward of the rollouts of an assignment; None for rollouts that fail.

    Attributes:
        assignments: all assignments so far, oldest first.
        trajectories: all returned trajectories, oldest first.
    """

    def __init__(self, reward: Callable[[Assignment], float | None]) -> None:
        self.reward = reward
        self.assignments: list[Assignment] = []
        self.trajectories: list[Trajectory] = []

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        """Return ``rollouts`` trajectories for each assignment."""
        rolled_out = [
            Trajectory(
                assignment,
                reward,
                index,
                samples.trajectory(assignment.candidate, assignment.question, reward).turns,
            )
            for assignment in assignments
            for reward in [self.reward(assignment)]
            for index in range(assignment.rollouts)
        ]
        self.assignments += assignments
        self.trajectories += rolled_out
        return rolled_out


class ScriptedEstimator(Attributor):
    """Attributor of given weights; a lead is a difference of two, with a fixed standard error.

    Args:
        weights: by the ids of candidates; the lead of any other candidate is unknown.
        stderr: standard error of each lead.
    """

    def __init__(self, weights: Mapping[str, float], stderr: float) -> None:
        self.weights, self.stderr = weights, stderr

    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        """Return the difference of the two weights; unknown if one of them is not given."""
        if candidate.id == other.id or not {candidate.id, other.id} <= set(self.weights):
            return Lead(0.0, math.inf)
        return Lead(self.weights[candidate.id] - self.weights[other.id], self.stderr)

    def stats(self, candidate: Candidate) -> CandidateStats:
        """Return the weight of ``candidate``, from a hundred groups if it is given."""
        if candidate.id not in self.weights:
            return CandidateStats(candidate, 0.0)
        return CandidateStats(candidate, self.weights[candidate.id], self.stderr, 100)

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Ignore ``trajectories``."""

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Ignore ``priors``."""

    def forget(self, ids: Collection[str]) -> None:
        """Ignore ``ids``."""


class FakeTrainer:
    """Trainer without a model, with the same calls of the engine as a real one.

    Args:
        policy: rollout function; it never learns.
        questions: batch of every step.
        rollouts: group size, at least 1.
    """

    def __init__(
        self, policy: RolloutFn, questions: Sequence[Question] = (), rollouts: int = 2
    ) -> None:
        self.policy = policy
        self.questions = questions or [samples.question(number) for number in range(8)]
        self.rollouts = rollouts

    def train(self, engine: Engine, steps: int) -> None:
        """Make ``steps`` steps with ``engine``, which waits for no proposer, as under adapters."""
        engine.waits = False
        for _ in range(steps):
            if engine.evolution_due:
                engine.evolve(self.policy)
            engine.tell(self.policy(engine.ask(self.questions, self.rollouts)))


class SampleTask(BankOwner):
    """Task of additions, with sentences and diagnoses.

    Its trajectories fail unless the instruction demands a check of the sum.
    """

    seed_instructions: Sequence[str] = ("Write <answer>the sum</answer>.",)
    required: Sequence[str] = samples.REQUIRED
    bank: SentenceBank | None = SentenceBank(
        sentences={
            "check": ("Check the sum twice.", "Add the numbers once more before you answer."),
            "split": ("Split large numbers.", "Add tens and ones one after the other."),
            "haste": ("Answer at once.", "Do not think."),
        },
        remedies={"wrong sum": ("check", "split")},
        fixed=("Write <answer>the sum</answer>.",),
    )

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Return that the sum is wrong if the reward is 0."""
        return ["wrong sum"] if trajectory.reward == 0.0 else []
