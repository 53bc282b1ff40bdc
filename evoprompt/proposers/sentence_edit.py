"""Reads diagnosed failures and edits sentences: the proposer that needs no LLM."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from evoprompt.proposers.bank import Diagnose, SentenceBank
from evoprompt.proposers.sentences import Genome, Sentences, Variation
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.selectors import FencedDeap
from evoprompt.types import Candidate, Proposal, Trajectory

_MOST_REMEDIES = 3  # in one child: some habits take hold only when several sentences ask for them
_SWAP = 1 / 4  # chance that a child also loses a sentence


class SentenceEdit(Proposer):
    """Adds, swaps and drops sentences where the parent's failures point (paper §3.2, no LLM).

    Each child gets one to three remedies that the bank names for diagnoses, which are drawn by how
    often they occur among the parent's failures. With several parents some children are a
    DEAP crossover of two first. Deterministic from the request's generator.

    Args:
        bank: the task's sentences and remedies.
        diagnose: the task's reading of a failed trajectory.
        most_sentences: most sentences an instruction may have beside the fixed ones.
        crossover: chance of a crossover when there is more than one parent, in [0, 1].
    """

    def __init__(
        self,
        bank: SentenceBank,
        diagnose: Diagnose,
        most_sentences: int = 8,
        crossover: float = 0.3,
    ) -> None:
        self.sentences = Sentences(bank, most_sentences)
        self.diagnose = diagnose
        self.crossover = crossover
        self._deap = FencedDeap("deap.tools.crossover")
        # The messy crossover is the one of DEAP's that takes lists of different and tiny lengths.
        self._crossover = self._deap.functions("cx")["cxMessyOnePoint"]

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Up to ``request.count`` edits of the parents; additions at random without failures."""

        def vary(parent: Candidate, genome: Genome) -> Variation:
            others = [s.candidate for s in request.parents if s.candidate.id != parent.id]
            if others and request.rng.random() < self.crossover:
                genome = self._cross(genome, request.rng.choice(others), request.rng)
            found = self.diagnoses(parent, request.failures, request.rng)
            return self._treat(genome, found, request.rng)

        return self.sentences.proposals(request, vary)

    def diagnoses(
        self, parent: Candidate, failures: Sequence[Trajectory], rng: random.Random
    ) -> Counter[str]:
        """How often each diagnosis applies to the failures of ``parent``, or else to all.

        Args:
            parent: the candidate that is edited.
            failures: the failures of all parents.
            rng: not used here; controls that draw diagnoses override this method.
        """
        own = [failure for failure in failures if failure.candidate.id == parent.id]
        return Counter(name for failure in own or failures for name in self.diagnose(failure))

    def _treat(self, genome: Genome, found: Counter[str], rng: random.Random) -> Variation:
        treatments: list[str] = []
        for _ in range(rng.randint(1, _MOST_REMEDIES)):
            present = {self.sentences.idea(sentence) for sentence in genome}
            remedies = {
                diagnosis: [
                    idea
                    for idea in self.sentences.bank.remedies.get(diagnosis, ())
                    if idea not in present
                ]
                for diagnosis in found
            }
            open_ = [diagnosis for diagnosis in found if remedies[diagnosis]]
            if open_:
                diagnosis = rng.choices(open_, [found[name] for name in open_])[0]
                idea = rng.choice(remedies[diagnosis])
                treatments.append(f"{diagnosis} -> {idea}")
                genome = self.sentences.add(genome, self.sentences.wording(idea, rng), rng)
            elif not treatments:
                sentence = rng.choice(self.sentences.wordings)
                treatments.append(f"no diagnosis -> {self.sentences.idea(sentence)}")
                genome = self.sentences.add(genome, sentence, rng)
        if len(genome) > 1 and rng.random() < _SWAP:
            genome = self.sentences.drop(genome, rng)
        return genome, "; ".join(treatments)

    def _cross(self, genome: Genome, other: Candidate, rng: random.Random) -> Genome:
        mate = self.sentences.take_apart(other)
        with self._deap.drawing_from(rng):
            child, _ = self._crossover(list(genome), mate)
        return self.sentences.tidy(child)
