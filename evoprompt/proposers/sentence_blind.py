"""The controls of ``sentence-edit``: the same edits, chosen without what the failures say."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Literal

from evoprompt.proposers.bank import Diagnose, SentenceBank
from evoprompt.proposers.sentence_edit import SentenceEdit
from evoprompt.types import Candidate, Trajectory

Ideas = Literal["all", "remedies", "deranged"]

_BLIND = "any failure"


class SentenceBlind(SentenceEdit):
    """Makes the edits of :class:`SentenceEdit`, of the same size, without reading the failures.

    What separates the two is the reading of failures alone: a child gets one to three ideas, loses
    a sentence as often and is crossed as often. Where ``SentenceEdit`` finds nothing to read, both
    do the same.

    Args:
        bank: the task's sentences and remedies.
        diagnose: the task's reading of a failed trajectory.
        ideas: where the ideas come from: ``"all"`` of the bank; the ``"remedies"`` of all
            diagnoses together; ``"deranged"``: each diagnosis gets the remedies of another one,
            drawn anew for every child.
        most_sentences: most sentences an instruction may have beside the fixed ones.
        crossover: chance of a crossover when there is more than one parent, in [0, 1].
    """

    def __init__(
        self,
        bank: SentenceBank,
        diagnose: Diagnose,
        ideas: Ideas = "all",
        most_sentences: int = 8,
        crossover: float = 0.3,
    ) -> None:
        if ideas == "all":
            bank = replace(bank, remedies={_BLIND: list(bank.sentences)})
        elif ideas == "remedies":
            union = dict.fromkeys(chain.from_iterable(bank.remedies.values()))
            bank = replace(bank, remedies={_BLIND: list(union)})
        super().__init__(bank, diagnose, most_sentences, crossover)
        self.ideas = ideas

    def diagnoses(
        self, parent: Candidate, failures: Sequence[Trajectory], rng: random.Random
    ) -> Counter[str]:
        """One diagnosis that says nothing, or each found one exchanged for another."""
        found = super().diagnoses(parent, failures, rng)
        if not found:
            return found
        if self.ideas != "deranged":
            return Counter([_BLIND])
        known = list(self.sentences.bank.remedies)
        exchanged: Counter[str] = Counter()
        for name, count in found.items():
            others = [other for other in known if other != name]
            exchanged[rng.choice(others) if others else name] += count
        return exchanged
