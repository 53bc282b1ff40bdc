"""Scoring of answers. It reads only the policy's text: actions, never observations.

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
    """Return the text in lower case, without punctuation, articles and superfluous space.

    >>> normalise(" The  Hague! ")
    'hague'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def comparable(text: str) -> str:
    """Return the text after normalisation, or after as much of it as leaves something.

    >>> comparable("The The!"), comparable("+")
    ('the the', '+')
    """
    words = " ".join(text.lower().split())
    return normalise(text) or " ".join(words.translate(_PUNCTUATION).split()) or words


def exact_match(turns: Sequence[Turn], golds: Sequence[str]) -> float:
    """Return 1.0 if the answer equals a gold answer after normalisation, else 0.0; 0.0 for none.

    An answer that normalises to nothing equals only its equal, unlike in the script.
    """
    answer = protocol.find_answer(turns)
    return float(answer is not None and comparable(answer) in map(comparable, golds))


def substring_match(turns: Sequence[Turn], golds: Sequence[str]) -> float:
    """Return 1.0 if the normalised answer contains a normalised gold answer, else 0.0.

    A gold answer that normalises to nothing, such as the band The The, is contained only in its
    equal.
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
    """Return the harmonic mean of the word precision and recall of the answer, in [0, 1].

    If normalisation leaves no word of one of them, it is 1.0 if they are equal, else 0.0.
    """
    answer = protocol.find_answer(turns)
    if answer is None:
        return 0.0
    return max((overlap(answer, gold) for gold in golds), default=0.0)


def valid_format(turns: Sequence[Turn]) -> bool:
    """Return whether every action is a query or, in the last turn, an answer, all tags closed."""
    return (
        all(_ACTION.fullmatch(turn.action) for turn in turns)
        and all(protocol.find_query(turn.action) is not None for turn in turns[:-1])
        and protocol.find_answer(turns) is not None
    )


def overlap(answer: str, gold: str) -> float:
    """Return the F1 of the words of an answer and one gold answer, in [0, 1]."""
    answer_words, gold_words = normalise(answer).split(), normalise(gold).split()
    if not answer_words or not gold_words:
        return float(comparable(answer) == comparable(gold))
    common = sum((Counter(answer_words) & Counter(gold_words)).values())
    return 2.0 * common / (len(answer_words) + len(gold_words))
