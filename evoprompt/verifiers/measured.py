"""What verifiers ask, and what they say of a candidate from the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evoprompt.types import Assignment, Candidate, Question, Trajectory, VerificationResult

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
