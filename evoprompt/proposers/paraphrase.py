"""Paraphrase: the same instruction in other words."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.proposers.language import (
    AROUND,
    CANDIDATES,
    Commission,
    LmProposer,
    Wording,
    per_parent,
)
from evoprompt.roles import ProposalRequest

PARAPHRASE = Wording(
    task=(
        "Say an instruction for an agent again in other words. Keep every demand it makes and add "
        "none; change the vocabulary, the order and the build of the sentences, so that no two "
        "versions sound alike; tools and tags keep their names. Write the instructions only, "
        "without numbering, headings or remarks about them."
    ),
    inputs={
        "instruction": "the instruction to say again",
        **AROUND,
        "required": "strings that every version must hold letter by letter, one per line",
        "length": "of every version",
        "count": "number of versions to write",
    },
    outputs={CANDIDATES: (list[str], "the versions, exactly `count` of them")},
)


class Paraphrase(LmProposer):
    """Rewords the parents without reading a single failure.

    Source: Zhou et al., "Large Language Models Are Human-Level Prompt Engineers" (APE, 2023),
    the resampling of §3.2; wording our own.
    """

    name = "paraphrase"

    def plan(self, request: ProposalRequest) -> Sequence[Commission]:
        """One call per parent."""
        return per_parent(request, PARAPHRASE)

    def calls_for(self, count: int, parents: int) -> int:
        """One a parent."""
        return min(count, parents)
