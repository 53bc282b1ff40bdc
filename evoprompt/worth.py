"""What a sentence is worth: what it adds to the reward of an instruction that holds it.

Candidates share sentences. A candidate's effect on the reward is the sum of what its sentences add,
and a rest of its own; what is known of the effects, of the dead too, is a system of linear
equations. Where a sentence is in no other combination its part cannot be told from the others', so
sentences that always come together are one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from evoprompt.text import sentences
from evoprompt.types import SentenceWorth

Floats = NDArray[np.float64]
Equations = Annotated[
    Floats,
    PlainValidator(lambda rows: np.array(rows, np.float64).reshape(len(rows), len(rows) + 1)),
    PlainSerializer(lambda equations: equations.tolist()),
]
"""Normal equations: in each row what multiplies the effects, and then what it comes to."""

_MOST = 128  # candidates, those told last: their equations are 16,500 numbers of a checkpoint
_PARTS = (1 / 4, 1 / 2, 1.0)
"""Of the noise of a reward: how far the parts of sentences spread, with rewards of 0 and 1 a tenth
and more; the data weigh them. With 1/8, too, intervals of sentences that matter covered in .85 of
the cases, with 1/4 in .91 or more (simulated runs of 4,800 rollouts,
docs/notes/2026-11-26-worth.md).
"""
_RESTS = (1 / 32, 1 / 8, 1 / 4, 1 / 2)  # likewise of candidates beside their sentences
_LEVEL = 100.0  # likewise: what all have in common is not known beforehand


@dataclass
class SentenceLedger:
    """What all steps so far tell of the candidates that were told last, the dead ones too.

    Attributes:
        texts: by candidate, whoever was told last comes last.
        equations: of their effects, in that order, less what questions and steps explain.
    """

    texts: dict[str, str] = field(default_factory=dict)
    equations: Equations = field(default_factory=lambda: np.zeros((0, 1)))

    def plus(self, texts: Mapping[str, str], equations: Floats) -> SentenceLedger:
        """With what one more step tells of the candidates in it.

        Args:
            texts: by candidate.
            equations: of those, in that order.
        """
        known = list(self.texts)
        rest = [name for name in known if name not in texts]
        names = [*rest, *texts]
        place = {name: index for index, name in enumerate(names)}
        found = np.zeros((len(names), len(names) + 1))
        for told, system in ((known, self.equations), (list(texts), equations)):
            rows = [place[name] for name in told]
            found[np.ix_(rows, [*rows, len(names)])] += system
        over = max(len(names) - _MOST, 0)
        if over:
            gone, kept = list(range(over)), list(range(over, len(names)))
            own = np.linalg.pinv(found[np.ix_(gone, gone)], hermitian=True)
            left = [*kept, len(names)]
            found = found[np.ix_(kept, left)] - found[np.ix_(kept, gone)] @ own @ found[:over, left]
        merged = {**self.texts, **texts}
        return SentenceLedger({name: merged[name] for name in names[over:]}, found)

    def worth(self, noise: float) -> list[SentenceWorth]:
        """What each sentence that not all have adds, the clearest first.

        How far sentences spread, and candidates beside their sentences, is not known: several
        spreads are tried, and count by how well they explain what was seen.

        Args:
            noise: variance of a reward about the mean of its question, above 0.
        """
        features = _features(list(self.texts.values()))
        if not features:
            return []
        columns = np.array(list(features), np.float64).T
        size, matrix = len(columns), self.equations[:, :-1]
        information, told = (matrix + matrix.T) / (2 * noise), self.equations[:, -1] / noise
        logs, means, squares = [], [], []
        for part, rest in itertools.product(np.square(_PARTS) * noise, np.square(_RESTS) * noise):
            prior = part * columns @ columns.T + rest * np.eye(size) + _LEVEL**2 * noise
            system = np.eye(size) + information @ prior
            solved = np.linalg.solve(system, np.column_stack([information, told]))
            mean = part * (columns.T @ solved[:, -1])
            seen = np.einsum("ij,ij->j", columns, solved[:, :-1] @ columns)
            logs.append((told @ prior @ solved[:, -1] - np.linalg.slogdet(system)[1]) / 2)
            means.append(mean)
            squares.append(np.maximum(part - part**2 * seen, 0.0) + mean**2)
        weights = np.exp(np.array(logs) - max(logs))
        weights /= weights.sum()
        values = weights @ np.array(means)
        errors = np.sqrt(np.maximum(weights @ np.array(squares) - values**2, 0.0))
        found = [
            SentenceWorth(text, float(value), float(error), int(sum(column)))
            for (column, text), value, error in zip(features.items(), values, errors, strict=True)
        ]
        return sorted(found, key=lambda one: -abs(one.value) / (one.stderr or 1.0))


def _features(texts: Sequence[str]) -> dict[tuple[bool, ...], str]:
    """By who has them, the sentences that some have and others have not."""
    wording: dict[str, str] = {}
    holders: dict[str, list[bool]] = {}
    for place, text in enumerate(texts):
        for sentence in sentences(text):
            key = " ".join(sentence.casefold().split()).rstrip(" .!?")
            wording.setdefault(key, sentence)
            holders.setdefault(key, [False] * len(texts))[place] = True
    together: dict[tuple[bool, ...], list[str]] = {}
    for key, having in holders.items():
        if not all(having):
            together.setdefault(tuple(having), []).append(wording[key])
    return {having: " ".join(said) for having, said in together.items()}
