"""EvoPrompt: genetic algorithm and differential evolution with a language model as operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from evoprompt.lm import LanguageModel
from evoprompt.proposers.diversify import diversify
from evoprompt.proposers.history import known
from evoprompt.proposers.language import (
    ANALYSIS,
    AROUND,
    CANDIDATES,
    Commission,
    LmProposer,
    Wording,
    component_of,
)
from evoprompt.roles import ProposalRequest, Selector
from evoprompt.selectors import Deap, select_distinct
from evoprompt.types import CandidateStats

_REQUIRED = "strings that the result must hold letter by letter, one per line"
_LENGTH = "of the result"

BREED = Wording(
    task=(
        "Two instructions for the same agent are the parents of a new one. First cross them: "
        "write an instruction that takes some of its demands from the one and some from the other. "
        "Then mutate that: change, drop or add one demand, and change its words. Give the mutated "
        "instruction alone as the only candidate, without headings or remarks about it."
    ),
    inputs={
        "first": "one parent",
        "second": "the other parent",
        **AROUND,
        "required": _REQUIRED,
        "length": _LENGTH,
    },
    outputs={
        ANALYSIS: (str, "the crossed instruction, before the mutation"),
        CANDIDATES: (list[str], "the mutated instruction, as a list of one"),
    },
)

DIFFER = Wording(
    task=(
        "Four instructions for the same agent are given. First name the demands in which the two "
        "donors differ. Then change each of these demands a little. Next combine the changed "
        "demands with the best instruction, replacing what they contradict there. Last cross the "
        "result with the base instruction, keeping some demands of either. Give what comes out "
        "alone as the only candidate, without headings or remarks about it."
    ),
    inputs={
        "base": "the base instruction",
        "best": "the best instruction so far",
        "first_donor": "a donor",
        "second_donor": "another donor",
        **AROUND,
        "required": _REQUIRED,
        "length": _LENGTH,
    },
    outputs={
        ANALYSIS: (str, "the differences of the donors and how they were changed"),
        CANDIDATES: (list[str], "what comes out, as a list of one"),
    },
)


class _OneEach(LmProposer):
    """A proposer of one call a proposal, on candidates that a selector chooses."""

    usual: ClassVar[str]
    """The operator of DEAP that chooses by default."""

    def __init__(
        self,
        language: LanguageModel,
        max_words: int | None = None,
        selector: Selector | None = None,
    ) -> None:
        super().__init__(language, max_words)
        self.selector = Deap(self.usual) if selector is None else selector

    def calls_for(self, count: int, parents: int) -> int:
        """One a proposal."""
        return count


class EvoPromptGA(_OneEach):
    """Crosses and mutates two parents, one call an offspring.

    Source: Guo et al., "Connecting Large Language Models with Evolutionary Algorithms Yields
    Powerful Prompt Optimizers" (EvoPrompt, 2024), Alg. 2; wording our own. Parents come from all
    candidates measured so far, since few may be alive. Until there are two, it asks for different
    approaches instead.

    Args:
        language: answers.
        max_words: longest instruction to ask for, in words.
        selector: chooses the two parents; by default DEAP's roulette wheel, as in the paper.
    """

    name = "guo2024-ga"
    usual = "roulette"

    def plan(self, request: ProposalRequest) -> Sequence[Commission]:
        """One call for each proposal."""
        pool = known(request)
        if len(pool) < 2:
            return diversify(request)
        commissions = []
        for _ in range(request.count):
            first, second = select_distinct(self.selector, pool, 2, request.rng)
            component = component_of(first.candidate, request)
            inputs = {"first": _text(first, component), "second": _text(second, component)}
            parents = (first.candidate, second.candidate)
            commissions.append(Commission(BREED, inputs, parents, component, 1))
        return commissions


class EvoPromptDE(_OneEach):
    """Carries changed differences of two donors over to a base, one call an offspring.

    Source: as :class:`EvoPromptGA`, Alg. 3. Until there are three candidates, it asks for
    different approaches instead.

    Args:
        language: answers.
        max_words: longest instruction to ask for, in words.
        selector: chooses the bases and the donors; by default DEAP's random choice, as in the
            paper.
    """

    name = "guo2024-de"
    usual = "random"

    def plan(self, request: ProposalRequest) -> Sequence[Commission]:
        """One call for each proposal."""
        pool = known(request)
        if len(pool) < 3:
            return diversify(request)
        best = max(pool, key=lambda stats: stats.weight)
        commissions = []
        for _ in range(request.count):
            base, first, second = select_distinct(self.selector, pool, 3, request.rng)
            component = component_of(base.candidate, request)
            inputs = {
                "base": _text(base, component),
                "best": _text(best, component),
                "first_donor": _text(first, component),
                "second_donor": _text(second, component),
            }
            parents = (base.candidate, best.candidate, first.candidate, second.candidate)
            commissions.append(Commission(DIFFER, inputs, parents, component, 1))
        return commissions


def _text(stats: CandidateStats, component: str) -> str:
    return stats.candidate.components[component]
