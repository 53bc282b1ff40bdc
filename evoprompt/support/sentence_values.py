"""Values of sentences: how much a sentence adds to the reward of an instruction that contains it.

Candidates share sentences. The effect of a candidate on the reward is the sum of the values of its
sentences and a residual of the candidate. The attributor's system of equations contains all
evidence of the effects, those of pruned candidates too. Sentences that always occur together cannot
be distinguished, so they count as a single sentence.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evoprompt.support.leads import SentenceValue
from evoprompt.support.text import sentences

Floats = NDArray[np.float64]
_PARTS = (1 / 4, 1 / 2, 1.0)
"""Tried spreads of the sentence values, as multiples of the noise of a reward.

With rewards of 0 and 1 they are a tenth and more; the data weigh them. With 1/8 as well, intervals
of sentences that matter covered in .85 of the cases, with 1/4 in .91 or more (simulated runs of
4,800 rollouts,
docs/notes/2026-11-26-worth.md).
"""
_RESIDUALS = (1 / 32, 1 / 8, 1 / 4, 1 / 2)  # likewise, of the residuals of candidates
_LEVEL = 100.0  # likewise, of the mean of all candidates, unknown beforehand


def sentence_values(
    texts: Sequence[str], information: Floats, evidence: Floats, noise: float
) -> list[SentenceValue]:
    """Return the value of each sentence that not all texts contain, the clearest first.

    The spreads of sentence values and of residuals are unknown: several are tried, and each counts
    by how well it explains the data.

    Args:
        texts: instructions of the candidates, n of them.
        information: normal equations of the candidates' effects, shape (n, n).
        evidence: right-hand side of these equations, shape (n,).
        noise: variance of a reward about the mean of its question, above 0.
    """
    features = _features(texts)
    if not features:
        return []
    columns = np.array(list(features), np.float64).T
    size = len(columns)
    information, scaled_evidence = (information + information.T) / (2 * noise), evidence / noise
    logs, means, squares = [], [], []
    for part, residual in itertools.product(
        np.square(_PARTS) * noise, np.square(_RESIDUALS) * noise
    ):
        prior = part * columns @ columns.T + residual * np.eye(size) + _LEVEL**2 * noise
        system = np.eye(size) + information @ prior
        solved = np.linalg.solve(system, np.column_stack([information, scaled_evidence]))
        mean = part * (columns.T @ solved[:, -1])
        seen = np.einsum("ij,ij->j", columns, solved[:, :-1] @ columns)
        logs.append((scaled_evidence @ prior @ solved[:, -1] - np.linalg.slogdet(system)[1]) / 2)
        means.append(mean)
        squares.append(np.maximum(part - part**2 * seen, 0.0) + mean**2)
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    values = weights @ np.array(means)
    errors = np.sqrt(np.maximum(weights @ np.array(squares) - values**2, 0.0))
    unsorted = [
        SentenceValue(text, float(value), float(error), int(sum(column)))
        for (column, text), value, error in zip(features.items(), values, errors, strict=True)
    ]
    return sorted(unsorted, key=lambda value: -abs(value.value) / (value.stderr or 1.0))


def _features(texts: Sequence[str]) -> dict[tuple[bool, ...], str]:
    """Group sentences by the texts that contain them, without those that all or none contain."""
    sentence_by_key: dict[str, str] = {}
    presence: dict[str, list[bool]] = {}
    for index, text in enumerate(texts):
        for sentence in sentences(text):
            key = " ".join(sentence.casefold().split()).rstrip(" .!?")
            sentence_by_key.setdefault(key, sentence)
            presence.setdefault(key, [False] * len(texts))[index] = True
    sentences_by_presence: dict[tuple[bool, ...], list[str]] = {}
    for key, is_in_text in presence.items():
        if not all(is_in_text):
            sentences_by_presence.setdefault(tuple(is_in_text), []).append(sentence_by_key[key])
    return {is_in_text: " ".join(grouped) for is_in_text, grouped in sentences_by_presence.items()}
