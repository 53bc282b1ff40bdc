"""Admits proposals as they come: what verification is compared with."""

from __future__ import annotations

from evoprompt.roles import VerificationRequest, Verifier
from evoprompt.types import Verification, VerificationResult
from evoprompt.verifiers.measured import NO_PLACE


class Unverified(Verifier):
    """Admits the first proposals without a rollout (the paper's ablation without verification)."""

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
