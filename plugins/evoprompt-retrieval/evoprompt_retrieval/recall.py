"""How often an index finds what answers a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evoprompt_search_qa.data.records import Record
from evoprompt_search_qa.retrieval.corpus import Corpus
from evoprompt_search_qa.retrieval.index import Hit, SearchIndex
from evoprompt_search_qa.scoring import normalise


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


def recall_at(
    corpus: Corpus, index: SearchIndex, records: Sequence[Record], ks: Sequence[int]
) -> Mapping[int, Recall]:
    """The recall over ``records`` by number of hits."""
    found = index.search([record.question for record in records], max(ks))
    return {k: _recall(corpus, records, [hits[:k] for hits in found]) for k in ks}


def _recall(corpus: Corpus, records: Sequence[Record], found: Sequence[Sequence[Hit]]) -> Recall:
    first, complete, answered = [], [], []
    for record, hits in zip(records, found, strict=True):
        passages = [corpus[hit.row] for hit in hits]
        ids = {passage.id for passage in passages}
        if record.supporting_ids:
            first.append(record.supporting_ids[0] in ids)
            complete.append(ids.issuperset(record.supporting_ids))
        texts = [_padded(passage.contents) for passage in passages]
        answers = [_padded(answer) for answer in record.answers if normalise(answer)]
        answered.append(any(answer in text for answer in answers for text in texts))
    return Recall(_mean(first), _mean(complete), _mean(answered))


def _padded(text: str) -> str:
    return f" {normalise(text)} "


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else float("nan")
