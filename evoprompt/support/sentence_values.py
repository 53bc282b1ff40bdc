"""What a sentence is worth: what it adds to the reward of an instruction that holds it.

Candidates share sentences. The effect of a candidate on the reward is the sum of what its sentences
add, and a rest of its own; what is known of the effects, those of pruned candidates too, is the
system of equations of the attributor. Sentences that always come together cannot be told apart, so
they are one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evoprompt.support.text import sentences

Floats = NDArray[np.float64]
_PARTS = (1 / 4, 1 / 2, 1.0)
"""Of the noise of a reward: how far the parts of sentences spread, with rewards of 0 and 1 a tenth
and more; the data weigh them. With 1/8, too, intervals of sentences that matter covered in .85 of
the cases, with 1/4 in .91 or more (simulated runs of 4,800 rollouts,
docs/notes/2026-11-26-worth.md).
"""
_RESTS = (1 / 32, 1 / 8, 1 / 4, 1 / 2)  # likewise of candidates beside their sentences
_LEVEL = 100.0  # likewise: what all have in common is not known beforehand


@dataclass(frozen=True, slots=True)
class SentenceValue:
    """Estimated value of a sentence: its effect on the mean reward of a candidate that holds it.

    Attributes:
        text: the sentence; sentences that always stand together count as one.
        value: the effect, shrunk towards 0 if there is little evidence.
        stderr: standard error of ``value``.
        holders: number of the latest candidates that hold it.
    """

    text: str
    value: float
    stderr: float
    holders: int

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.stderr:.3f}"

    @property
    def verdict(self) -> str:
        """``"good"`` or ``"bad"`` beyond two standard errors, else ``"not shown"``.

        >>> SentenceValue("Be brief.", 0.06, 0.02, 3).verdict
        'good'
        """
        if abs(self.value) <= 2 * self.stderr:
            return "not shown"
        return "good" if self.value > 0 else "bad"


def sentence_values(
    texts: Sequence[str], information: Floats, evidence: Floats, noise: float
) -> list[SentenceValue]:
    """Return what each sentence that not all texts hold adds, the clearest first.

    How far sentences spread, and candidates beside their sentences, is not known: several spreads
    are tried, and count by how well they explain the data.

    Args:
        texts: of the candidates, n of them.
        information: normal equations of the candidates' effects, shape (n, n).
        evidence: what they come to, shape (n,).
        noise: variance of a reward about the mean of its question, above 0.
    """
    features = _features(texts)
    if not features:
        return []
    columns = np.array(list(features), np.float64).T
    size = len(columns)
    information, told = (information + information.T) / (2 * noise), evidence / noise
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
    worths = [
        SentenceValue(text, float(value), float(error), int(sum(column)))
        for (column, text), value, error in zip(features.items(), values, errors, strict=True)
    ]
    return sorted(worths, key=lambda worth: -abs(worth.value) / (worth.stderr or 1.0))


def _features(texts: Sequence[str]) -> dict[tuple[bool, ...], str]:
    """Group sentences by the candidates that hold them, without those that all or none hold."""
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
