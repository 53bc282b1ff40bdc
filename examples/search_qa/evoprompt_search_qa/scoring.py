"""How an answer is judged. Only what the policy wrote is read: actions, never observations.

Normalisation and metrics follow the SQuAD evaluation script (Rajpurkar et al., 2016); the best
value over all gold answers counts.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from evoprompt.types import Turn
from evoprompt_search_qa import protocol

Metric = Callable[[Sequence[Turn], Sequence[str]], float]
"""Reads the turns of an episode and the gold answers; in [0, 1]."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ACTION = re.compile(
    r"^\s*(?:<think>[^<>]*</think>\s*)*"
    r"(?:<search>[^<>]*</search>|<answer>[^<>]*</answer>)\s*$"
)


def normalise(text: str) -> str:
    """Lower case, without punctuation, articles and superfluous space.

    >>> normalise(" The  Hague! ")
    'hague'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(turns: Sequence[Turn], golds: Sequence[str]) -> float:
    """1.0 if the answer equals a gold answer after normalisation, else 0.0; no answer is 0.0."""
    answer = protocol.find_answer(turns)
    return float(answer is not None and normalise(answer) in map(normalise, golds))


def substring_match(turns: Sequence[Turn], golds: Sequence[str]) -> float:
    """1.0 if the normalised answer contains a normalised gold answer, else 0.0."""
    answer = protocol.find_answer(turns)
    if answer is None:
        return 0.0
    return float(any(gold and gold in normalise(answer) for gold in map(normalise, golds)))


def f1(turns: Sequence[Turn], golds: Sequence[str]) -> float:
    """Harmonic mean of the word precision and recall of the answer, in [0, 1]."""
    answer = protocol.find_answer(turns)
    if answer is None:
        return 0.0
    said = normalise(answer).split()
    return max((_overlap(said, normalise(gold).split()) for gold in golds), default=0.0)


def valid_format(turns: Sequence[Turn]) -> bool:
    """Whether every action is a query or, in the last turn, an answer, all tags closed."""
    return (
        bool(turns)
        and all(_ACTION.match(turn.action) for turn in turns)
        and protocol.find_answer(turns) is not None
    )


def _overlap(said: Sequence[str], gold: Sequence[str]) -> float:
    common = sum((Counter(said) & Counter(gold)).values())
    return 2.0 * common / (len(said) + len(gold)) if common else 0.0
