"""Published prompt optimizers: APE's resampling, OPRO, and EvoPrompt's GA and DE."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.proposers.language import (
    ANALYSIS,
    AROUND,
    CANDIDATES,
    LmProposer,
    LmTask,
    Prompt,
    component_of,
    diversify,
    per_parent,
)
from evoprompt.roles import ProposalRequest
from evoprompt.selectors import Deap, select_distinct
from evoprompt.types import CandidateStats

PARAPHRASE = Prompt(
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
    """An LLM paraphrases the instruction (APE).

    It rewords the parents without reading any failure.

    Source: Zhou et al., "Large Language Models Are Human-Level Prompt Engineers" (APE, 2023),
    the resampling of §3.2; the prompt is evoprompt's.
    """

    name = "paraphrase"

    def plan(self, request: ProposalRequest) -> Sequence[LmTask]:
        """Return a call for each parent."""
        return per_parent(request, PARAPHRASE)


CONTINUE = Prompt(
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


_MAX_LISTED = 20  # instructions with their scores, the best ones


class History(LmProposer):
    """An LLM continues a list of instructions and their scores (OPRO).

    Source: Yang et al., "Large Language Models as Optimizers" (OPRO, 2024); the prompt is
    evoprompt's. Before anything was measured it asks for different approaches instead.
    """

    name = "history"

    def plan(self, request: ProposalRequest) -> Sequence[LmTask]:
        """Return a single call, for any number of parents."""
        measured = [stats for stats in latest_stats(request) if stats.groups]
        if not measured:
            return diversify(request)
        best = request.parents[0].candidate
        component = component_of(best, request)
        return [
            LmTask(
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
        ranked = sorted(scores.items(), key=lambda pair: pair[1])[-_MAX_LISTED:]
        return "\n\n".join(f"Instruction: {text}\nScore: {score:.0f}" for text, score in ranked)

    def calls_for(self, count: int, parents: int) -> int:
        """Return 1."""
        return 1


def latest_stats(request: ProposalRequest) -> list[CandidateStats]:
    """Return parents and history, each candidate once with its latest stats, oldest first."""
    latest = {entry.candidate.id: entry for entry in (*request.history, *request.parents)}
    return list(latest.values())


def scores_of(candidate_stats: Sequence[CandidateStats]) -> list[float]:
    """Return the weights as scores from 0 to 100; rewards outside of [0, 1] are stretched."""
    weights = [stats.weight for stats in candidate_stats]
    low, high = min(0.0, *weights), max(1.0, *weights)
    return [100 * (weight - low) / (high - low) for weight in weights]


_REQUIRED = "strings that the result must hold letter by letter, one per line"
_LENGTH = "of the result"

BREED = Prompt(
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

DIFFER = Prompt(
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


class EvoPromptGA(LmProposer):
    """An LLM crosses and mutates two parents (EvoPrompt, genetic algorithm).

    One call an offspring.

    Source: Guo et al., "Connecting Large Language Models with Evolutionary Algorithms Yields
    Powerful Prompt Optimizers" (EvoPrompt, 2024), Alg. 2; the prompt is evoprompt's. Parents come
    from all candidates measured so far, since there may be few members, by DEAP's roulette wheel.
    Until there are two, it asks for different approaches instead.
    """

    name = "guo2024-ga"

    def plan(self, request: ProposalRequest) -> Sequence[LmTask]:
        """Return a call for each proposal."""
        pool = latest_stats(request)
        if len(pool) < 2:
            return diversify(request)
        roulette = Deap("roulette")
        tasks = []
        for _ in range(request.count):
            first, second = select_distinct(roulette, pool, 2, request.rng)
            component = component_of(first.candidate, request)
            inputs = {"first": _text(first, component), "second": _text(second, component)}
            parents = (first.candidate, second.candidate)
            tasks.append(LmTask(BREED, inputs, parents, component, 1))
        return tasks

    def calls_for(self, count: int, parents: int) -> int:
        """Return ``count``, one call for each proposal."""
        return count


class EvoPromptDE(LmProposer):
    """An LLM carries differences over to a base (EvoPrompt, differential evolution).

    One call an offspring.

    Source: as :class:`EvoPromptGA`, Alg. 3; base and donors are drawn at random. Until there are
    three candidates, it asks for different approaches instead.
    """

    name = "guo2024-de"

    def plan(self, request: ProposalRequest) -> Sequence[LmTask]:
        """Return a call for each proposal."""
        pool = latest_stats(request)
        if len(pool) < 3:
            return diversify(request)
        best = max(pool, key=lambda stats: stats.weight)
        tasks = []
        for _ in range(request.count):
            base, first, second = request.rng.sample(pool, 3)
            component = component_of(base.candidate, request)
            inputs = {
                "base": _text(base, component),
                "best": _text(best, component),
                "first_donor": _text(first, component),
                "second_donor": _text(second, component),
            }
            parents = (base.candidate, best.candidate, first.candidate, second.candidate)
            tasks.append(LmTask(DIFFER, inputs, parents, component, 1))
        return tasks

    def calls_for(self, count: int, parents: int) -> int:
        """Return ``count``, one call for each proposal."""
        return count


def _text(stats: CandidateStats, component: str) -> str:
    return stats.candidate.components[component]
