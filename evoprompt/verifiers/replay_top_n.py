"""Rolls proposals out on replayed questions and admits the best (paper §3.2, step 3)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Literal

from evoprompt.interfaces import RolloutFn
from evoprompt.replay import ReplayBuffer
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Question,
    Trajectory,
    Verification,
    VerificationResult,
)


class ReplayTopN:
    """Admits the candidates with the highest mean reward on questions of the replay buffer.

    Every candidate of a round is asked the same questions once, by the current policy.

    Args:
        questions: ``|D_B|``, questions per round; fewer if the buffer holds fewer.
        accept: ``"top"`` admits the best of the round (paper). ``"not-worse"`` rolls the parents
            out on the same questions too and admits only candidates whose mean is at least the
            best parent's.
    """

    def __init__(
        self, questions: int = 200, accept: Literal["top", "not-worse"] = "not-worse"
    ) -> None:
        if questions < 1:
            raise ValueError(f"questions is {questions}; required: at least 1")
        self.questions = questions
        self.accept = accept

    def verify(
        self,
        proposed: Sequence[Candidate],
        parents: Sequence[CandidateStats],
        replay: ReplayBuffer,
        rollout: RolloutFn,
        slots: int,
        rng: random.Random,
    ) -> Verification:
        """One result per proposed candidate, best first, at most ``slots`` of them admitted."""
        compared = [] if self.accept == "top" else [parent.candidate for parent in parents]
        questions = replay.questions(self.questions, rng)
        trajectories = rollout(_assignments([*compared, *proposed], questions))
        bars = [_measure(candidate, trajectories) for candidate in compared]
        bar = max((bar.mean for bar in bars if bar.mean is not None), default=-math.inf)
        ranked = sorted(
            (_measure(candidate, trajectories) for candidate in proposed),
            key=lambda result: -math.inf if result.mean is None else result.mean,
            reverse=True,
        )
        results: list[VerificationResult] = []
        for result in ranked:
            reason = _reason_against(result, bar, slots)
            if not reason:
                slots -= 1
            results.append(_decided(result, reason))
        return Verification(tuple(results), tuple(bars), tuple(trajectories))


def _assignments(
    candidates: Sequence[Candidate], questions: Sequence[Question]
) -> list[Assignment]:
    return [
        Assignment(
            f"{candidate.id}/{index}", question, candidate, 1, f"{candidate.id}/{index}", "verify"
        )
        for candidate in candidates
        for index, question in enumerate(questions)
    ]


def _measure(candidate: Candidate, trajectories: Sequence[Trajectory]) -> VerificationResult:
    rewards = [
        trajectory.reward
        for trajectory in trajectories
        if trajectory.candidate.id == candidate.id and trajectory.reward is not None
    ]
    scored = len(rewards)
    if not scored:
        return VerificationResult(candidate, None, None, 0, admitted=False)
    mean = math.fsum(rewards) / scored
    spread = math.fsum((reward - mean) ** 2 for reward in rewards)
    stderr = math.sqrt(spread / (scored - 1) / scored) if scored > 1 else None
    return VerificationResult(candidate, mean, stderr, scored, admitted=False)


def _reason_against(result: VerificationResult, bar: float, slots: int) -> str:
    if result.mean is None:
        return "no rollout of it could be scored"
    if result.mean < bar:
        return f"mean reward {result.mean:.3f} is below the best parent's {bar:.3f}"
    if slots < 1:
        return "no free place was left in the population"
    return ""


def _decided(result: VerificationResult, reason: str) -> VerificationResult:
    return VerificationResult(
        result.candidate, result.mean, result.stderr, result.scored, not reason, reason
    )
