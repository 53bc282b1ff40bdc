"""Proposers in the same sentence bank that do not read failures: the ablation's controls."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean

from evoprompt.proposers.bank import SentenceBank
from evoprompt.proposers.sentences import Genome, Sentences, Variation
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.selectors import FencedDeap
from evoprompt.types import Candidate, CandidateStats, Proposal

_TEMPERATURE = 0.1  # how strongly past weights steer the choice of a sentence


class SentenceRandom(Proposer):
    """Adds, replaces or drops a sentence at random: blind mutation.

    Args:
        bank: the task's sentences; diagnoses and remedies are not looked at.
        most_sentences: most sentences an instruction may have beside the fixed ones.
    """

    def __init__(self, bank: SentenceBank, most_sentences: int = 8) -> None:
        self.sentences = Sentences(bank, most_sentences)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Up to ``request.count`` random edits."""

        def vary(_: Candidate, genome: Genome) -> Variation:
            draw = request.rng.random()
            if draw < 0.2:
                return self.sentences.drop(genome, request.rng), "random: drop"
            kept = self.sentences.drop(genome, request.rng) if draw < 0.4 else genome
            sentence = request.rng.choice(self.sentences.wordings)
            return self.sentences.add(kept, sentence, request.rng), "random: add"

        return self.sentences.proposals(request, vary)


class SentenceParaphrase(Proposer):
    """Rewords and reorders the parent's sentences and says nothing new (as APE does).

    Args:
        bank: the task's sentences, several wordings per idea.
        most_sentences: most sentences an instruction may have beside the fixed ones.
    """

    def __init__(self, bank: SentenceBank, most_sentences: int = 8) -> None:
        self.sentences = Sentences(bank, most_sentences)
        self._deap = FencedDeap("deap.tools.mutation")
        self._shuffle = self._deap.functions("mut")["mutShuffleIndexes"]

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Up to ``request.count`` rewordings; fewer when there are not so many."""

        def vary(_: Candidate, genome: Genome) -> Variation:
            reworded = [self._reword(sentence, request.rng) for sentence in genome]
            if len(reworded) > 1:
                with self._deap.drawing_from(request.rng):
                    self._shuffle(reworded, 0.5)
            return reworded, "paraphrase"

        return self.sentences.proposals(request, vary)

    def _reword(self, sentence: str, rng: random.Random) -> str:
        idea = self.sentences.idea(sentence)
        known = idea in self.sentences.bank.sentences
        return self.sentences.wording(idea, rng) if known and rng.random() < 0.5 else sentence


class SentenceHistory(Proposer):
    """Recombines what scored well before, without looking at why (as OPRO does).

    Args:
        bank: the task's sentences; diagnoses and remedies are not looked at.
        most_sentences: most sentences an instruction may have beside the fixed ones.
    """

    def __init__(self, bank: SentenceBank, most_sentences: int = 8) -> None:
        self.sentences = Sentences(bank, most_sentences)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Up to ``request.count`` edits that favour the ideas of the best instructions so far."""
        worth = self._worth([*request.history, *request.parents])
        top = max(worth.values(), default=0.0)

        def vary(_: Candidate, genome: Genome) -> Variation:
            rng = request.rng
            present = {self.sentences.idea(sentence) for sentence in genome}
            proven = [idea for idea in worth if idea not in present]
            if proven and rng.random() < 0.5:
                powers = [math.exp((worth[idea] - top) / _TEMPERATURE) for idea in proven]
                sentence = self.sentences.wording(rng.choices(proven, powers)[0], rng)
            else:
                sentence = rng.choice(self.sentences.wordings)
            if len(genome) > 2 and rng.random() < 0.3:
                weakest = min(genome, key=lambda text: worth.get(self.sentences.idea(text), 0.0))
                genome = [text for text in genome if text != weakest]
            return self.sentences.add(genome, sentence, rng), "history"

        return self.sentences.proposals(request, vary)

    def _worth(self, candidate_stats: Sequence[CandidateStats]) -> dict[str, float]:
        weights: dict[str, list[float]] = {}
        for stats in candidate_stats:
            if stats.groups:
                for sentence in self.sentences.take_apart(stats.candidate):
                    idea = self.sentences.idea(sentence)
                    if idea in self.sentences.bank.sentences:
                        weights.setdefault(idea, []).append(stats.weight)
        return {idea: fmean(found) for idea, found in weights.items()}
