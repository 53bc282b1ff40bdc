"""Proposers that need no LLM: they edit instructions as lists of sentences of the task's bank."""

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
_MOST_REMEDIES = 3  # in one child: some habits take hold only when several sentences ask for them
_SWAP = 1 / 4  # chance that a child also loses a sentence
_BLIND = "any failure"


class SentenceProposer(Proposer):
    """Takes instructions apart into sentences, varies them, and puts them together again.

    Of a candidate with several components, the one that the bank is for is varied, or else the
    first; the others stay as they are.

    Args:
        bank: the task's sentences.
        most_sentences: most sentences an instruction may have beside the fixed ones, at least 1.
    """

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        most_sentences: int = Field(
            8, ge=1, description="beside those that every instruction keeps"
        )
        without: list[str] = Field([], description="ideas of the task's bank to leave out")

    @classmethod
    def build(cls, settings: Any, context: BuildContext) -> SentenceProposer:
        """Makes one that edits sentences of the bank of the task.

        Raises:
            InputError: there is no task, or it has no bank.
        """
        given = dict(settings)
        _, bank = _task_and_bank(context)
        return cls(bank.without(given.pop("without")), **given)

    def __init__(self, bank: SentenceBank, most_sentences: int = 8) -> None:
        if most_sentences < 1:
            raise ValueError(f"most_sentences is {most_sentences}; required: at least 1 sentence")
        self.bank = bank
        self.most = most_sentences
        self.wordings = [text for texts in bank.sentences.values() for text in texts]
        self._idea = {text: idea for idea, texts in bank.sentences.items() for text in texts}
        # What the bank knows is found whole, even where it holds several sentences or no full stop.
        known = sorted([*bank.fixed, *self.wordings], key=len, reverse=True)
        kinds = "|".join([*map(re.escape, known), ".*?[.!?]", ".+"])
        self._sentence = re.compile(rf"\s*({kinds})(?=\s|$)", re.DOTALL)

    @abstractmethod
    def vary(self, parent: Candidate, genome: Genome, request: ProposalRequest) -> Variation:
        """A variation of the genome of ``parent``."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Up to ``request.count`` different texts, each a variation of a random parent."""
        parents = [stats.candidate for stats in request.parents]
        seen = {parent.components[self._varied(parent)] for parent in parents}
        found: list[Proposal] = []
        for _ in range(request.count * _TRIES_PER_PROPOSAL):
            if len(found) == request.count:
                break
            parent = request.rng.choice(parents)
            genome, rationale = self.vary(parent, self.take_apart(parent), request)
            text = self.put_together(genome)
            if genome and text not in seen:
                seen.add(text)
                components = {**parent.components, self._varied(parent): text}
                found.append(Proposal(components, (parent.id,), rationale))
        return found

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

    def _varied(self, candidate: Candidate) -> str:
        """The name of the component that is varied."""
        wanted = self.bank.component
        return wanted if wanted in candidate.components else next(iter(candidate.components))


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
    """Reads diagnosed failures and edits sentences of the task's bank; no LLM.

    It adds, swaps and drops sentences where the parent's failures point (paper §3.2). Each child
    gets one to three remedies that the bank names for diagnoses, which are drawn by how often they
    occur among the parent's failures; additions are random without failures. With several parents
    some children are a crossover of two first. Deterministic from the request's generator.

    Args:
        bank: the task's sentences and remedies.
        diagnose: the task's reading of a failed trajectory.
        most_sentences: most sentences an instruction may have beside the fixed ones.
    """

    crossover = 0.3
    """Chance of a crossover when there is more than one parent, in [0, 1]."""

    @classmethod
    def build(cls, settings: Any, context: BuildContext) -> SentenceEdit:
        """Makes one that edits sentences of the bank of the task, by its diagnoses.

        Raises:
            InputError: there is no task, or it has no bank.
        """
        given = dict(settings)
        task, bank = _task_and_bank(context)
        return cls(bank.without(given.pop("without")), task.diagnose, **given)

    def __init__(self, bank: SentenceBank, diagnose: Diagnose, most_sentences: int = 8) -> None:
        super().__init__(bank, most_sentences)
        self.diagnose = diagnose

    def vary(self, parent: Candidate, genome: Genome, request: ProposalRequest) -> Variation:
        """The genome, perhaps crossed with that of another parent, and with some remedies."""
        others = [s.candidate for s in request.parents if s.candidate.id != parent.id]
        if others and request.rng.random() < self.crossover:
            genome = self._cross(genome, request.rng.choice(others), request.rng)
        found = self.diagnoses(parent, request.failures)
        return self._treat(genome, found, request.rng)

    def diagnoses(self, parent: Candidate, failures: Sequence[Trajectory]) -> Counter[str]:
        """How often each diagnosis applies to the failures of ``parent``, or else to all."""
        own = [failure for failure in failures if failure.candidate.id == parent.id]
        return Counter(name for failure in own or failures for name in self.diagnose(failure))

    def _treat(self, genome: Genome, found: Counter[str], rng: random.Random) -> Variation:
        treatments: list[str] = []
        for _ in range(rng.randint(1, _MOST_REMEDIES)):
            present = {self.idea(sentence) for sentence in genome}
            remedies = {
                diagnosis: [
                    idea for idea in self.bank.remedies.get(diagnosis, ()) if idea not in present
                ]
                for diagnosis in found
            }
            open_ = [diagnosis for diagnosis in found if remedies[diagnosis]]
            if open_:
                diagnosis = rng.choices(open_, [found[name] for name in open_])[0]
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
        """A beginning of the genome and an end of the other's: a messy one-point crossover."""
        mate = self.take_apart(other)
        head, tail = rng.randint(0, len(genome)), rng.randint(0, len(mate))
        return self.tidy([*genome[:head], *mate[tail:]])


class SentenceBlind(SentenceEdit):
    """Makes the same edits without reading failures, as a control.

    What separates it from :class:`SentenceEdit` is the reading of failures alone: a child gets one
    to three ideas, of the whole bank, loses a sentence as often and is crossed as often. Where
    ``SentenceEdit`` finds nothing to read, both do the same.

    Args:
        bank: the task's sentences.
        diagnose: the task's reading of a failed trajectory.
        most_sentences: most sentences an instruction may have beside the fixed ones.
    """

    def __init__(self, bank: SentenceBank, diagnose: Diagnose, most_sentences: int = 8) -> None:
        bank = replace(bank, remedies={_BLIND: list(bank.sentences)})
        super().__init__(bank, diagnose, most_sentences)

    def diagnoses(self, parent: Candidate, failures: Sequence[Trajectory]) -> Counter[str]:
        """One diagnosis that says nothing, if there are any."""
        return Counter([_BLIND] if super().diagnoses(parent, failures) else [])


class SentenceRandom(SentenceProposer):
    """Edits sentences at random, as a control: blind mutation."""

    def vary(self, parent: Candidate, genome: Genome, request: ProposalRequest) -> Variation:
        """The genome with a sentence added, replaced or dropped."""
        draw = request.rng.random()
        if draw < 0.2:
            return self.drop(genome, request.rng), "random: drop"
        kept = self.drop(genome, request.rng) if draw < 0.4 else genome
        sentence = request.rng.choice(self.wordings)
        return self.add(kept, sentence, request.rng), "random: add"
