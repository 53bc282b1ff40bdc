"""Rolls proposals out on replayed questions and admits the best (paper §3.2, step 3)."""

from __future__ import annotations

import math
from typing import Literal

from evoprompt.roles import VerificationRequest, Verifier
from evoprompt.types import Verification, VerificationResult
from evoprompt.verifiers.measured import NO_PLACE, measured, verification_of


class ReplayTopN(Verifier):
    """Admits the candidates with the highest mean reward on questions of the replay buffer.

    Every candidate of a round is asked the same questions once, by the current policy. At most half
    of them are admitted: a verification that turns nobody away decides nothing. One alone has to do
    no worse than the best parent.

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
