"""How often an index finds what answers a question."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import Hit, SearchIndex

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Question(BaseModel):
    """A line of FlashRAG's question files.

    Attributes:
        question: what is searched for.
        golden_answers: every answer that counts as correct.
        supporting_ids: passages that hold the facts needed, in order, if known.
    """

    model_config = ConfigDict(frozen=True)
    question: str
    golden_answers: tuple[str, ...]
    supporting_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recall:
    """Shares of the questions of one set, in [0, 1]; ``nan`` where the set does not say.

    Attributes:
        first: whose first supporting passage is among the hits.
        all: whose supporting passages all are.
        answer: for whom some hit has an answer in its text, word by word.
    """

    first: float
    all: float
    answer: float


def read_questions(path: Path) -> list[Question]:
    """The questions in a file of JSON lines.

    Raises:
        pydantic.ValidationError: a line is no question.
    """
    with path.open("rb") as file:
        return [Question.model_validate_json(line) for line in file if line.strip()]


def recall_at(
    corpus: Corpus, index: SearchIndex, questions: Sequence[Question], ks: Sequence[int]
) -> Mapping[int, Recall]:
    """The recall over ``questions`` by number of hits."""
    found = index.search([one.question for one in questions], max(ks))
    return {k: _recall(corpus, questions, [hits[:k] for hits in found]) for k in ks}


def _recall(
    corpus: Corpus, questions: Sequence[Question], found: Sequence[Sequence[Hit]]
) -> Recall:
    first, complete, answered = [], [], []
    for one, hits in zip(questions, found, strict=True):
        passages = [corpus[hit.row] for hit in hits]
        ids = {passage.id for passage in passages}
        if one.supporting_ids:
            first.append(one.supporting_ids[0] in ids)
            complete.append(ids.issuperset(one.supporting_ids))
        texts = [_padded(passage.contents) for passage in passages]
        answers = [_padded(answer) for answer in one.golden_answers if _normalised(answer)]
        answered.append(any(answer in text for answer in answers for text in texts))
    return Recall(_mean(first), _mean(complete), _mean(answered))


def _padded(text: str) -> str:
    return f" {_normalised(text)} "


def _normalised(text: str) -> str:
    """As the SQuAD evaluation script: lower case, no punctuation, articles, superfluous space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else float("nan")
