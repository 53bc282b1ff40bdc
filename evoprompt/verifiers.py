"""Who is admitted to the population: verifiers that roll proposals out, and one that does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from evoprompt.roles import VerificationRequest, Verifier
from evoprompt.types import (
    Assignment,
    Candidate,
    Question,
    Trajectory,
    Verification,
    VerificationResult,
)

__all__ = ["NO_PLACE", "ReplayTopN", "Unverified", "mean_of", "measured", "verification_of"]

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
    return mean_of(
        candidate,
        [
            trajectory.reward
            for trajectory in trajectories
            if trajectory.candidate.id == candidate.id and trajectory.reward is not None
        ],
    )


def mean_of(candidate: Candidate, rewards: Sequence[float]) -> VerificationResult:
    """Mean and standard error of the ``rewards`` of ``candidate``, who is not admitted."""
    scored = len(rewards)
    if not scored:
        return VerificationResult(candidate, None, None, 0, admitted=False)
    mean = math.fsum(rewards) / scored
    spread = math.fsum((reward - mean) ** 2 for reward in rewards)
    stderr = math.sqrt(spread / (scored - 1) / scored) if scored > 1 else None
    return VerificationResult(candidate, mean, stderr, scored, admitted=False)


class ReplayTopN(Verifier):
    """Admits the best on questions of the replay buffer (paper section 3.2).

    The best are those of the highest mean reward. Every candidate of a round is asked the same
    questions once, by the current policy. At most half of them are admitted: a verification that
    turns nobody away decides nothing. One alone has to do no worse than the best parent.

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
            key=lambda result: -math.inf if result.mean is None else result.mean,
            reverse=True,
        )
        half = tried // 2 or int(bar > -math.inf)
        left = min(request.slots, half)
        full = NO_PLACE if left == request.slots else _at_most(half, tried)
        results: list[VerificationResult] = []
        for result in ranked:
            reason = _reason_against(result, bar, "" if left else full)
            left -= not reason
            results.append(_decided(result, reason))
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


def _decided(result: VerificationResult, reason: str) -> VerificationResult:
    return VerificationResult(
        result.candidate, result.mean, result.stderr, result.scored, not reason, reason
    )


class Unverified(Verifier):
    """Admits proposals as they come, without a rollout (ablation).

    The first are admitted: the paper's ablation without verification.
    """

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """None are needed."""
        return 0

    def verify(self, request: VerificationRequest) -> Verification:
        """One result per proposed candidate; the first ``slots`` are admitted unmeasured."""
        slots = request.slots
        return Verification(
            tuple(
                VerificationResult(
                    candidate,
                    None,
                    None,
                    0,
                    admitted=index < slots,
                    reason="" if index < slots else NO_PLACE,
                )
                for index, candidate in enumerate(request.proposed)
            )
        )
