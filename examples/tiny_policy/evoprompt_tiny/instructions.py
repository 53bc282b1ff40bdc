"""Random instructions from a bank of sentences, for the supervised stage."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from evoprompt.proposers.bank import SentenceBank


def compose(bank: SentenceBank, ideas: Sequence[str], wording: int = 0) -> str:
    """Return the instruction of the fixed sentences and ``ideas``, in the wording of that number.

    >>> compose(SentenceBank({"brief": ["Be brief.", "Be short."]}), ["brief"], wording=1)
    'Be short.'
    """
    return " ".join([*bank.fixed, *(bank.sentences[idea][wording] for idea in ideas)])


@dataclass(frozen=True, slots=True)
class Instructions:
    """Contents of the instructions of demonstrations.

    Attributes:
        bank: all sentences, by idea.
        seed: ideas of the instruction that training starts from, which are drawn often.
        matter: ideas with an effect, which are drawn more often than idle ones.
        together: ideas that have to appear together; by chance they rarely do.
        idle: ideas without effect.
    """

    bank: SentenceBank
    seed: Sequence[str]
    matter: Sequence[str]
    together: Sequence[str]
    idle: Sequence[str]

    def draw(self, rng: random.Random) -> list[str]:
        """Return the ideas of a random instruction."""
        ideas = list(self.seed) if rng.random() < 0.35 else []
        if rng.random() < 0.35:
            ideas += rng.sample(list(self.together), rng.choice((2, 2, 3)))
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5))):
            ideas.append(rng.choice(self.matter if rng.random() < 0.75 else self.idle))
        ideas = list(dict.fromkeys(ideas))
        if rng.random() < 0.5:
            rng.shuffle(ideas)
        return ideas

    def write(self, ideas: Sequence[str], rng: random.Random) -> str:
        """Return an instruction of the fixed sentences and ``ideas``, each in a random wording."""
        wordings = [rng.choice(list(self.bank.sentences[idea])) for idea in ideas]
        return " ".join([*self.bank.fixed, *wordings])
