"""Admits proposals as they come: what verification is compared with."""

from __future__ import annotations

import random
from collections.abc import Sequence

from evoprompt.interfaces import RolloutFn
from evoprompt.replay import ReplayBuffer
from evoprompt.types import Candidate, CandidateStats, Verification, VerificationResult


class Unverified:
    """Admits the first proposals without a rollout (the paper's ablation without verification)."""

    def verify(
        self,
        proposed: Sequence[Candidate],
        parents: Sequence[CandidateStats],
        replay: ReplayBuffer,
        rollout: RolloutFn,
        slots: int,
        rng: random.Random,
    ) -> Verification:
        """One result per proposed candidate; the first ``slots`` are admitted unmeasured."""
        del parents, replay, rollout, rng
        return Verification(
            tuple(
                VerificationResult(
                    candidate,
                    None,
                    None,
                    0,
                    admitted=index < slots,
                    reason="" if index < slots else "no free place was left in the population",
                )
                for index, candidate in enumerate(proposed)
            )
        )
