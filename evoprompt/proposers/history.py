"""History: continues a list of instructions and their scores."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.lm import LanguageModel
from evoprompt.proposers.diversify import diversify
from evoprompt.proposers.language import (
    AROUND,
    CANDIDATES,
    Commission,
    LmProposer,
    Wording,
    component_of,
)
from evoprompt.roles import ProposalRequest
from evoprompt.types import CandidateStats

CONTINUE = Wording(
    task=(
        "Below are instructions for an agent, each with the score the agent reached under it, "
        "from 0 to 100, the best last. Work out what the good ones have that the bad ones lack, "
        "and write new instructions that should score higher than all of them. Do not repeat one "
        "that is listed. Write the instructions only, without numbering, headings or remarks "
        "about them."
    ),
    inputs={
        "scored": "instructions with their scores, the worst first",
        **AROUND,
        "required": "strings that every instruction must hold letter by letter, one per line",
        "length": "of every instruction",
        "count": "number of instructions to write",
    },
    outputs={CANDIDATES: (list[str], "the new instructions, exactly `count` of them")},
)


class History(LmProposer):
    """Extrapolates from what was tried and how it scored.

    Source: Yang et al., "Large Language Models as Optimizers" (OPRO, 2024); wording our own.
    Before anything was measured it asks for different approaches instead.

    Args:
        language: answers.
        max_words: longest instruction to ask for, in words.
        shown: most instructions to show, the best ones.
    """

    name = "history"

    def __init__(
        self, language: LanguageModel, max_words: int | None = None, shown: int = 20
    ) -> None:
        super().__init__(language, max_words)
        self.shown = shown

    def plan(self, request: ProposalRequest) -> Sequence[Commission]:
        """One call, whatever the number of parents."""
        measured = [one for one in known(request) if one.groups]
        if not measured:
            return diversify(request)
        best = request.parents[0].candidate
        component = component_of(best, request)
        return [
            Commission(
                CONTINUE,
                {"scored": self._listing(measured, component)},
                (best,),
                component,
                request.count,
            )
        ]

    def _listing(self, measured: Sequence[CandidateStats], component: str) -> str:
        scores: dict[str, float] = {}
        for stats, score in zip(measured, scores_of(measured), strict=True):
            scores[stats.candidate.components[component]] = score
        ranked = sorted(scores.items(), key=lambda pair: pair[1])[-self.shown :]
        return "\n\n".join(f"Instruction: {text}\nScore: {score:.0f}" for text, score in ranked)

    def calls_for(self, count: int, parents: int) -> int:
        """One."""
        return 1

    def input_tokens(self, count: int) -> int:
        """As many instructions as are shown."""
        return super().input_tokens(count) * self.shown // 2


def known(request: ProposalRequest) -> list[CandidateStats]:
    """Parents and history, each candidate once with its latest stats, oldest first."""
    latest = {one.candidate.id: one for one in (*request.history, *request.parents)}
    return list(latest.values())


def scores_of(candidate_stats: Sequence[CandidateStats]) -> list[float]:
    """Weights as scores from 0 to 100; rewards outside of [0, 1] are stretched to fit."""
    weights = [stats.weight for stats in candidate_stats]
    low, high = min(0.0, *weights), max(1.0, *weights)
    return [100 * (weight - low) / (high - low) for weight in weights]
