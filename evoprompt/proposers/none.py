"""No proposer: the population stays what it is."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.types import Proposal


class NoProposer(Proposer):
    """Never proposes anything; an engine with it keeps its seeds (a static instruction)."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """An empty list."""
        del request
        return []
