"""Who is admitted to the population: the verifiers that ship with evoprompt.

And the rollouts that a verification may make: kept within the budget, counted, and asked of a dead
best as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, Field

from evoprompt.evaluation import EMPTY, Failures
from evoprompt.roles import RolloutFn, VerificationRequest, Verifier
from evoprompt.types import (
    Assignment,
    Candidate,
    Question,
    Trajectory,
    Verification,
    VerificationResult,
)

__all__ = [
    "NO_PLACE",
    "ReplayTopN",
    "RolloutsSpentError",
    "Unverified",
    "VerificationRollouts",
    "measured",
    "verification_of",
]

NO_PLACE = "no free place was left in the population"
"""Why somebody who did well enough is not admitted."""


def verification_of(
    candidate: Candidate, question: Question, index: int, rollouts: int = 1
) -> Assignment:
    """``candidate`` on the ``index``-th question of a round."""
    identity = f"{candidate.id}/{index}"
    return Assignment(identity, question, candidate, rollouts, identity, "verify")


def measured(candidate: Candidate, trajectories: Sequence[Trajectory]) -> VerificationResult:
    """Mean reward and standard error of ``candidate``, who is not admitted."""
    rewards = [
        one.reward
        for one in trajectories
        if one.candidate.id == candidate.id and one.reward is not None
    ]
    scored = len(rewards)
    if not scored:
        return VerificationResult(candidate, None, None, 0, admitted=False)
    mean = math.fsum(rewards) / scored
    spread = math.fsum((reward - mean) ** 2 for reward in rewards)
    stderr = math.sqrt(spread / (scored - 1) / scored) if scored > 1 else None
    return VerificationResult(candidate, mean, stderr, scored, admitted=False)


def _by_mean(result: VerificationResult) -> float:
    return -math.inf if result.mean is None else result.mean


class ReplayTopN(Verifier):
    """Admits the best on questions of the replay buffer (paper section 3.2).

    The best are those of the highest mean reward. Every candidate of a round is asked the same
    questions once, by the current policy. At most half of them are admitted: a verification that
    refuses none decides nothing. One alone has to do no worse than the best parent.

    Args:
        questions: ``|D_B|``, questions per round; fewer if the buffer holds fewer.
        accept: ``"top"`` admits the best of the round (paper). ``"not-worse"`` rolls the parents
            out on the same questions too and admits only candidates whose mean is at least the
            best parent's.
    """

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        questions: int = Field(200, ge=1, description="|D_B|, questions per round")
        accept: Literal["top", "not-worse"] = Field(
            "not-worse",
            description="the best of the round, or only those not worse than a parent",
        )

    def __init__(
        self, questions: int = 200, accept: Literal["top", "not-worse"] = "not-worse"
    ) -> None:
        if questions < 1:
            raise ValueError(f"questions is {questions}; required: at least 1")
        self.questions = questions
        self.accept = accept

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """Most rollouts of a round that tries so many candidates of so many parents."""
        compared = self.accept == "not-worse" or proposed == 1
        return self.questions * (proposed + (parents if compared else 0))

    def verify(self, request: VerificationRequest) -> Verification:
        """One result per proposed candidate, best first, at most half of them admitted."""
        tried = len(request.proposed)
        contested = self.accept == "top" and tried > 1
        compared = [] if contested else [one.candidate for one in request.parents]
        questions = request.replay.questions(self.questions, request.rng)
        trajectories = request.rollout(
            [
                verification_of(candidate, question, index)
                for candidate in (*compared, *request.proposed)
                for index, question in enumerate(questions)
            ]
        )
        bars = [measured(candidate, trajectories) for candidate in compared]
        bar = max((bar.mean for bar in bars if bar.mean is not None), default=-math.inf)
        ranked = sorted(
            (measured(candidate, trajectories) for candidate in request.proposed),
            key=_by_mean,
            reverse=True,
        )
        half = tried // 2 or int(bar > -math.inf)
        left = min(request.slots, half)
        full = NO_PLACE if left == request.slots else _at_most(half, tried)
        results: list[VerificationResult] = []
        for result in ranked:
            reason = _reason_against(result, bar, "" if left else full)
            left -= not reason
            results.append(replace(result, admitted=not reason, reason=reason))
        return Verification(tuple(results), tuple(bars), tuple(trajectories))


def _at_most(half: int, tried: int) -> str:
    if not half:
        return "it was tried alone, and no rollout of a parent could be scored"
    return f"of {tried} that were tried at most {half} are admitted, and others did no worse"


def _reason_against(result: VerificationResult, bar: float, otherwise: str) -> str:
    if result.mean is None:
        return "no rollout of it could be scored"
    if result.mean < bar:
        return f"mean reward {result.mean:.3f} is below the best parent's {bar:.3f}"
    return otherwise


class Unverified(Verifier):
    """Admits proposals as they come, without a rollout (ablation).

    The first are admitted: the paper's ablation without verification.
    """

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """None are needed."""
        return 0

    def verify(self, request: VerificationRequest) -> Verification:
        """One result per proposed candidate; the first ``slots`` are admitted unmeasured."""
        return Verification(
            tuple(
                VerificationResult(one, None, None, 0, not reason, reason)
                for place, one in enumerate(request.proposed)
                for reason in ["" if place < request.slots else NO_PLACE]
            )
        )


class RolloutsSpentError(Exception):
    """Says that a verification does not fit into the budget."""

    def __init__(self, needed: int, left: int) -> None:
        super().__init__(
            f"no verification: it needs {needed} more rollouts and the budget has {left}; none "
            "is admitted, training goes on; evolve earlier (evolve_until), ask fewer questions "
            "(verify_questions) or raise the budget"
        )


class VerificationRollouts:
    """Rolls the current policy out for a verifier.

    A champion that has died is asked what the verifier asks the others. The verifier does not see
    its answers, and decides as it would without them.

    Args:
        rollout: rolls the current policy out.
        champion: to ask, too.
        most: questions to ask it, in all; 0 where it is alive, and compared in training.
        remaining_rollouts: that the budget has left; None for no end.

    Attributes:
        answers: what the verifier asked for.
        champions: answers of the champion, that it did not ask for.
        errors: of the trainer or the budget, not of the verifier.
        seconds: that verifications took.
    """

    def __init__(
        self,
        rollout: RolloutFn,
        champion: Candidate,
        most: int,
        remaining_rollouts: int | None = None,
    ) -> None:
        self.answers: list[Trajectory] = []
        self.champions: list[Trajectory] = []
        self.errors: list[Exception] = []
        self.seconds = 0.0
        self._rollout = rollout
        self._champion = champion
        self._most = most
        self._remaining = None if remaining_rollouts is None else max(remaining_rollouts - most, 0)
        self._asked: set[str] = set()

    def __call__(self, assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
        """What the assignments brought, without the champion's.

        Raises:
            RolloutsSpentError: they are more than the budget has left.
            InputError: a reward is NaN or infinite.
        """
        needed = sum(assignment.rollouts for assignment in assignments)
        try:
            if self._remaining is not None and len(self.answers) + needed > self._remaining:
                raise RolloutsSpentError(needed, self._remaining - len(self.answers))
            more = self._more(assignments)
            found = self._rollout([*assignments, *more])
            for trajectory in found:
                trajectory.require_finite()
        except Exception as error:
            self.errors.append(error)
            raise
        own = {one.id for one in more}
        rest = [one for one in found if one.assignment.id not in own]
        self.champions += [one for one in found if one.assignment.id in own]
        self.answers += rest
        return rest

    @property
    def rollouts(self) -> int:
        """How many were made."""
        return len(self.answers) + len(self.champions)

    @property
    def failures(self) -> Failures:
        """How many of them have no reward, or said nothing and were not rewarded for it."""
        found = Failures()
        for one in (*self.answers, *self.champions):
            found = found.with_one(_fault(one))
        return found

    def _more(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """The champion on the questions that it was not asked yet."""
        questions = {one.question.id: one.question for one in assignments}
        new = [one for name, one in questions.items() if name not in self._asked]
        new = new[: self._most - len(self._asked)]
        self._asked.update(one.id for one in new)
        names = [f"{self._champion.id}/{one.id}" for one in new]
        return [
            Assignment(name, question, self._champion, 1, name, "verify")
            for name, question in zip(names, new, strict=True)
        ]


def _fault(one: Trajectory) -> str:
    """Why a rollout came to nothing; empty if it did not."""
    if one.reward is None:
        return one.failure
    silent = bool(one.turns) and not any(turn.action.strip() for turn in one.turns)
    if silent and one.reward <= 0:
        return f"{EMPTY}, of {one.candidate.id} to question {one.question.id!r}"
    return ""
