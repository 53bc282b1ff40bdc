"""Proposers without an LLM that edit instructions as lists of sentences from the task's bank."""

from __future__ import annotations

import random
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field

from evoprompt.components import BuildContext
from evoprompt.proposers.bank import BankOwner, Diagnose, SentenceBank
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate, Proposal, Trajectory

Genome = list[str]
Variation = tuple[Genome, str]
"""A varied genome and the reason for it."""

_TRIES_PER_PROPOSAL = 8
_MAX_REMEDIES = 3  # in one proposal: some habits form only if several sentences demand them
_SWAP = 1 / 4  # chance that a proposal also loses a sentence
_ANY_FAILURE = "any failure"


class SentenceProposer(Proposer):
    """Base class of proposers that vary instructions as lists of sentences.

    Of a candidate with several components, the component of the bank is varied, or else the first;
    the remaining ones stay unchanged.

    Args:
        bank: the task's sentences.
        most_sentences: maximum number of sentences in addition to the fixed ones, at least 1.
    """

    class Settings(BaseModel, extra="forbid"):
        """Settings of the proposer in a configuration."""

        most_sentences: int = Field(
            8, ge=1, description="beside those that every instruction keeps"
        )
        without: list[str] = Field([], description="ideas of the task's bank to leave out")

    @classmethod
    def build(cls, settings: Any, context: BuildContext) -> SentenceProposer:
        """Build a proposer that edits sentences of the task's bank.

        Raises:
            InputError: there is no task, or it has no bank.
        """
        arguments = dict(settings)
        _, bank = _task_and_bank(context)
        return cls(bank.without(arguments.pop("without")), **arguments)

    def __init__(self, bank: SentenceBank, most_sentences: int = 8) -> None:
        if most_sentences < 1:
            raise ValueError(f"most_sentences is {most_sentences}; required: at least 1 sentence")
        self.bank = bank
        self.most = most_sentences
        self.wordings = [text for texts in bank.sentences.values() for text in texts]
        self._idea = {text: idea for idea, texts in bank.sentences.items() for text in texts}
        # Texts of the bank match as a whole, even with several sentences or without a full stop.
        bank_texts = sorted([*bank.fixed, *self.wordings], key=len, reverse=True)
        kinds = "|".join([*map(re.escape, bank_texts), ".*?[.!?]", ".+"])
        self._sentence = re.compile(rf"\s*({kinds})(?=\s|$)", re.DOTALL)

    @abstractmethod
    def vary(self, parent: Candidate, genome: Genome, request: ProposalRequest) -> Variation:
        """Return a variation of the genome of ``parent``."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Return up to ``request.count`` different texts, each a variation of a random parent."""
        parents = [stats.candidate for stats in request.parents]
        seen_texts = {parent.components[self._varied(parent)] for parent in parents}
        proposals: list[Proposal] = []
        for _ in range(request.count * _TRIES_PER_PROPOSAL):
            if len(proposals) == request.count:
                break
            parent = request.rng.choice(parents)
            genome, rationale = self.vary(parent, self.split_sentences(parent), request)
            text = self.join_sentences(genome)
            if genome and text not in seen_texts:
                seen_texts.add(text)
                components = {**parent.components, self._varied(parent): text}
                proposals.append(Proposal(components, (parent.id,), rationale))
        return proposals

    def split_sentences(self, candidate: Candidate) -> Genome:
        """Return the sentences of an instruction, without the fixed ones."""
        all_sentences: Genome = self._sentence.findall(
            candidate.components[self._varied(candidate)].strip()
        )
        return [text for text in all_sentences if text not in self.bank.fixed]

    def join_sentences(self, genome: Sequence[str]) -> str:
        """Return the instruction of the fixed sentences and ``genome``."""
        return " ".join([*self.bank.fixed, *genome])

    def idea(self, sentence: str) -> str:
        """Return the key of a bank sentence; any other sentence is its own idea."""
        return self._idea.get(sentence, sentence)

    def wording(self, idea: str, rng: random.Random) -> str:
        """Return a random variant of ``idea``."""
        return rng.choice(list(self.bank.sentences[idea]))

    def tidy(self, genome: Iterable[str]) -> Genome:
        """Return the genome with each idea once, in its first variant, at most ``most`` long."""
        by_idea: dict[str, str] = {}
        for sentence in genome:
            by_idea.setdefault(self.idea(sentence), sentence)
        return list(by_idea.values())[: self.most]

    def add(self, genome: Genome, sentence: str, rng: random.Random) -> Genome:
        """Return the genome with ``sentence``, in place of a random one if it is full."""
        sentences = list(genome)
        if len(sentences) >= self.most:
            sentences.pop(rng.randrange(len(sentences)))
        return self.tidy([*sentences, sentence])

    def drop(self, genome: Genome, rng: random.Random) -> Genome:
        """Return the genome without one random sentence."""
        sentences = list(genome)
        if sentences:
            sentences.pop(rng.randrange(len(sentences)))
        return sentences

    def _varied(self, candidate: Candidate) -> str:
        """Return the name of the component that is varied."""
        component = self.bank.component
        return component if component in candidate.components else next(iter(candidate.components))


def _task_and_bank(context: BuildContext) -> tuple[BankOwner, SentenceBank]:
    task = context.task
    if not isinstance(task, BankOwner) or task.bank is None:
        lacking = "there is no task" if task is None else f"{type(task).__name__} has none"
        raise InputError(
            f"the proposer edits sentences of the task's bank, and {lacking}; required: a task "
            "with a sentence bank, or a proposer that writes freely; choose one that asks a "
            f"language model, {context.syntax.writer}, or train without evolving, "
            f"{context.syntax.static}"
        )
    return task, task.bank


class SentenceEdit(SentenceProposer):
    """Proposer that reads diagnosed failures and edits sentences of the task's bank; no LLM.

    It adds, swaps and drops sentences as the parent's failures suggest (paper §3.2). Each proposal
    gets one to three remedies that the bank names for diagnoses, which are drawn by how often they
    occur among the parent's failures; additions are random without failures. With several parents
    some proposals are first a crossover of two. Deterministic from the request's generator.

    Args:
        bank: the task's sentences and remedies.
        diagnose: the task's reading of a failed trajectory.
        most_sentences: maximum number of sentences in addition to the fixed ones.
    """

    crossover = 0.3
    """Chance of a crossover if there are several parents, in [0, 1]."""

    @classmethod
    def build(cls, settings: Any, context: BuildContext) -> SentenceEdit:
        """Build a proposer that edits sentences of the task's bank, by its diagnoses.

        Raises:
            InputError: there is no task, or it has no bank.
        """
        arguments = dict(settings)
        task, bank = _task_and_bank(context)
        return cls(bank.without(arguments.pop("without")), task.diagnose, **arguments)

    def __init__(self, bank: SentenceBank, diagnose: Diagnose, most_sentences: int = 8) -> None:
        super().__init__(bank, most_sentences)
        self.diagnose = diagnose

    def vary(self, parent: Candidate, genome: Genome, request: ProposalRequest) -> Variation:
        """Return the genome with remedies, possibly after a crossover with another parent."""
        other_parents = [s.candidate for s in request.parents if s.candidate.id != parent.id]
        if other_parents and request.rng.random() < self.crossover:
            genome = self._cross(genome, request.rng.choice(other_parents), request.rng)
        diagnoses = self.diagnoses(parent, request.failures)
        return self._treat(genome, diagnoses, request.rng)

    def diagnoses(self, parent: Candidate, failures: Sequence[Trajectory]) -> Counter[str]:
        """Count the diagnoses of the failures of ``parent``, or of all failures if it has none."""
        own_failures = [failure for failure in failures if failure.candidate.id == parent.id]
        return Counter(
            name for failure in own_failures or failures for name in self.diagnose(failure)
        )

    def _treat(self, genome: Genome, diagnoses: Counter[str], rng: random.Random) -> Variation:
        treatments: list[str] = []
        for _ in range(rng.randint(1, _MAX_REMEDIES)):
            present = {self.idea(sentence) for sentence in genome}
            remedies = {
                diagnosis: [
                    idea for idea in self.bank.remedies.get(diagnosis, ()) if idea not in present
                ]
                for diagnosis in diagnoses
            }
            open_ = [diagnosis for diagnosis in diagnoses if remedies[diagnosis]]
            if open_:
                diagnosis = rng.choices(open_, [diagnoses[name] for name in open_])[0]
                idea = rng.choice(remedies[diagnosis])
                treatments.append(f"{diagnosis} -> {idea}")
                genome = self.add(genome, self.wording(idea, rng), rng)
            elif not treatments:
                sentence = rng.choice(self.wordings)
                treatments.append(f"no diagnosis -> {self.idea(sentence)}")
                genome = self.add(genome, sentence, rng)
        if len(genome) > 1 and rng.random() < _SWAP:
            genome = self.drop(genome, rng)
        return genome, "; ".join(treatments)

    def _cross(self, genome: Genome, other: Candidate, rng: random.Random) -> Genome:
        """Return a beginning of the genome and an end of the other's: a one-point crossover.

        The two cuts are independent (a messy crossover).
        """
        mate = self.split_sentences(other)
        head, tail = rng.randint(0, len(genome)), rng.randint(0, len(mate))
        return self.tidy([*genome[:head], *mate[tail:]])


class SentenceBlind(SentenceEdit):
    """Proposer that makes the same edits without reading failures, as a control.

    The only difference to :class:`SentenceEdit` is the reading of failures: a proposal gets one to
    three ideas, of the whole bank, and loses a sentence and is crossed with the same chances. If
    ``SentenceEdit`` has nothing to read, both do the same.

    Args:
        bank: the task's sentences.
        diagnose: the task's reading of a failed trajectory.
        most_sentences: maximum number of sentences in addition to the fixed ones.
    """

    def __init__(self, bank: SentenceBank, diagnose: Diagnose, most_sentences: int = 8) -> None:
        bank = replace(bank, remedies={_ANY_FAILURE: list(bank.sentences)})
        super().__init__(bank, diagnose, most_sentences)

    def diagnoses(self, parent: Candidate, failures: Sequence[Trajectory]) -> Counter[str]:
        """Return a single uninformative diagnosis, if there are any."""
        return Counter([_ANY_FAILURE] if super().diagnoses(parent, failures) else [])


class SentenceRandom(SentenceProposer):
    """Proposer that edits sentences at random, as a control: blind mutation."""

    def vary(self, parent: Candidate, genome: Genome, request: ProposalRequest) -> Variation:
        """Return the genome with a sentence added, replaced or dropped."""
        draw = request.rng.random()
        if draw < 0.2:
            return self.drop(genome, request.rng), "random: drop"
        shortened = self.drop(genome, request.rng) if draw < 0.4 else genome
        sentence = request.rng.choice(self.wordings)
        return self.add(shortened, sentence, request.rng), "random: add"
