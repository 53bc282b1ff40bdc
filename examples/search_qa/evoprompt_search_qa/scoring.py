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
_TEXT = r"(?:(?!</?(?:think|search|information|answer)>).)*"
_ACTION = re.compile(
    rf"\s*(?:<think>{_TEXT}</think>\s*)*"
    rf"(?:<search>{_TEXT}</search>|<answer>{_TEXT}</answer>)\s*",
    re.DOTALL,
)


def normalise(text: str) -> str:
    """Lower case, without punctuation, articles and superfluous space.

    >>> normalise(" The  Hague! ")
    'hague'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def comparable(text: str) -> str:
    """The text after normalisation, or as much of that as leaves something of it.

    >>> comparable("The The!"), comparable("+")
    ('the the', '+')
    """
    words = " ".join(text.lower().split())
    return normalise(text) or " ".join(words.translate(_PUNCTUATION).split()) or words


def exact_match(turns: Sequence[Turn], golds: Sequence[str]) -> float:
    """1.0 if the answer equals a gold answer after normalisation, else 0.0; no answer is 0.0.

    An answer of which normalisation leaves nothing equals only its like, unlike in the script.
    """
    answer = protocol.find_answer(turns)
    return float(answer is not None and comparable(answer) in map(comparable, golds))


def substring_match(turns: Sequence[Turn], golds: Sequence[str]) -> float:
    """1.0 if the normalised answer contains a normalised gold answer, else 0.0.

    A gold answer of which normalisation leaves nothing, such as the band The The, is contained
    in its like alone.
    """
    answer = protocol.find_answer(turns)
    if answer is None:
        return 0.0
    return float(
        any(
            normalise(gold) in normalise(answer)
            if normalise(gold)
            else comparable(gold) == comparable(answer)
            for gold in golds
        )
    )


def f1(turns: Sequence[Turn], golds: Sequence[str]) -> float:
    """Harmonic mean of the word precision and recall of the answer, in [0, 1].

    Where normalisation leaves no word of one of them, 1.0 if they are alike, else 0.0.
    """
    answer = protocol.find_answer(turns)
    if answer is None:
        return 0.0
    return max((overlap(answer, gold) for gold in golds), default=0.0)


def valid_format(turns: Sequence[Turn]) -> bool:
    """Whether every action is a query or, in the last turn, an answer, all tags closed."""
    return (
        all(_ACTION.fullmatch(turn.action) for turn in turns)
        and all(protocol.find_query(turn.action) is not None for turn in turns[:-1])
        and protocol.find_answer(turns) is not None
    )


def overlap(answer: str, gold: str) -> float:
    """F1 of the words of an answer and one gold answer, in [0, 1]."""
    said, wanted = normalise(answer).split(), normalise(gold).split()
    if not said or not wanted:
        return float(comparable(answer) == comparable(gold))
    common = sum((Counter(said) & Counter(wanted)).values())
    return 2.0 * common / (len(said) + len(wanted))
