"""Instructions as lists of sentences: the genome that the proposers without an LLM vary."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence

from evoprompt.proposers.bank import SentenceBank
from evoprompt.roles import ProposalRequest
from evoprompt.types import Candidate, Proposal

Genome = list[str]
Variation = tuple[Genome, str]
"""A varied genome and the reason for it."""

_TRIES_PER_PROPOSAL = 8


class Sentences:
    """Takes instructions apart into sentences and puts them together again.

    Of a candidate with several components, the one that the bank is for is varied, or else the
    first; the others stay as they are.

    Args:
        bank: the task's sentences.
        most: most sentences an instruction may have beside the fixed ones, at least 1.
    """

    def __init__(self, bank: SentenceBank, most: int = 8) -> None:
        if most < 1:
            raise ValueError(f"most is {most}; required: at least 1 sentence")
        self.bank = bank
        self.most = most
        self.wordings = [text for texts in bank.sentences.values() for text in texts]
        self._idea = {text: idea for idea, texts in bank.sentences.items() for text in texts}
        # What the bank knows is found whole, even where it holds several sentences or no full stop.
        known = sorted([*bank.fixed, *self.wordings], key=len, reverse=True)
        kinds = "|".join([*map(re.escape, known), ".*?[.!?]", ".+"])
        self._sentence = re.compile(rf"\s*({kinds})(?=\s|$)", re.DOTALL)

    def take_apart(self, candidate: Candidate) -> Genome:
        """The sentences of an instruction, without those that are fixed."""
        found: Genome = self._sentence.findall(
            candidate.components[self._varied(candidate)].strip()
        )
        return [text for text in found if text not in self.bank.fixed]

    def put_together(self, genome: Sequence[str]) -> str:
        """The instruction of the fixed sentences and ``genome``."""
        return " ".join([*self.bank.fixed, *genome])

    def idea(self, sentence: str) -> str:
        """The key of a bank sentence; a sentence from elsewhere is its own idea."""
        return self._idea.get(sentence, sentence)

    def wording(self, idea: str, rng: random.Random) -> str:
        """One of the wordings of ``idea``."""
        return rng.choice(list(self.bank.sentences[idea]))

    def tidy(self, genome: Iterable[str]) -> Genome:
        """The genome with each idea once, the first wording winning, at most ``most`` long."""
        by_idea: dict[str, str] = {}
        for sentence in genome:
            by_idea.setdefault(self.idea(sentence), sentence)
        return list(by_idea.values())[: self.most]

    def add(self, genome: Genome, sentence: str, rng: random.Random) -> Genome:
        """The genome with ``sentence``, in place of a random one when it is full."""
        kept = list(genome)
        if len(kept) >= self.most:
            kept.pop(rng.randrange(len(kept)))
        return self.tidy([*kept, sentence])

    def drop(self, genome: Genome, rng: random.Random) -> Genome:
        """The genome without one random sentence."""
        kept = list(genome)
        if kept:
            kept.pop(rng.randrange(len(kept)))
        return kept

    def proposals(
        self, request: ProposalRequest, vary: Callable[[Candidate, Genome], Variation]
    ) -> list[Proposal]:
        """Up to ``request.count`` different texts, each ``vary`` of a random parent's genome."""
        parents = [stats.candidate for stats in request.parents]
        seen = {parent.components[self._varied(parent)] for parent in parents}
        found: list[Proposal] = []
        for _ in range(request.count * _TRIES_PER_PROPOSAL):
            if len(found) == request.count:
                break
            parent = request.rng.choice(parents)
            genome, rationale = vary(parent, self.take_apart(parent))
            text = self.put_together(genome)
            if genome and text not in seen:
                seen.add(text)
                components = {**parent.components, self._varied(parent): text}
                found.append(Proposal(components, (parent.id,), rationale))
        return found

    def _varied(self, candidate: Candidate) -> str:
        """The name of the component that is varied."""
        wanted = self.bank.component
        return wanted if wanted in candidate.components else next(iter(candidate.components))
