"""Where a population comes from while there is nothing to learn from yet."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.proposers.language import (
    AROUND,
    CANDIDATES,
    Commission,
    Wording,
    component_of,
    shares,
)
from evoprompt.roles import ProposalRequest

DIVERSIFY = Wording(
    task=(
        "An agent is about to work under an instruction, and nobody knows yet which "
        "instruction suits it. Write further instructions for the same task that approach it in "
        "ways as different from each other, and from the given one, as you can think of: another "
        "order of work, another degree of caution, another use of the tools, another length. "
        "Each stands alone and replaces the given one entirely. Write the instructions only, "
        "without numbering, headings or remarks about them."
    ),
    inputs={
        "instruction": "the instruction to begin with",
        **AROUND,
        "required": "strings that every instruction must hold letter by letter, one per line",
        "length": "of every instruction",
        "count": "number of instructions to write",
    },
    outputs={CANDIDATES: (list[str], "the instructions, exactly `count` of them")},
)


def diversify(request: ProposalRequest) -> Sequence[Commission]:
    """One call per parent that fills the population with different approaches."""
    return [
        Commission(
            DIVERSIFY,
            {"instruction": parent.candidate.components[component]},
            (parent.candidate,),
            component,
            share,
        )
        for parent, share in zip(
            request.parents, shares(request.count, len(request.parents)), strict=False
        )
        for component in [component_of(parent.candidate, request)]
    ]
