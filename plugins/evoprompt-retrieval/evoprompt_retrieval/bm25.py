"""Search by words: BM25, its scores computed beforehand and memory-mapped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import bm25s
import numpy as np
import Stemmer
from bm25s.stopwords import STOPWORDS_EN

from evoprompt.errors import InputError
from evoprompt_retrieval.bm25_build import Bm25Builder
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import Hit, OnProgress
from evoprompt_retrieval.manifest import Bm25Manifest
from evoprompt_retrieval.passages import Passage

K1, B = 0.9, 0.4
"""What Anserini uses for Wikipedia passages."""

TITLE_WEIGHT = 2
"""A title counts twice: better than once on all four sets of training questions that we have."""

_BLOCK = 20_000
_PASSAGES = 512
"""In a block of scores, of which the maximum is looked at first."""

_ABOVE_0 = np.finfo(np.float32).tiny
_WORD = re.compile(r"\b\w\w+\b")
_STOPWORDS = frozenset(STOPWORDS_EN)


class Analyzer:
    """Turns text into words that can be compared."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")

    def __call__(self, text: str) -> list[str]:
        """The English word stems of ``text``, without stopwords and words of one letter."""
        words = [word for word in _WORD.findall(text.lower()) if word not in _STOPWORDS]
        stems: list[str] = self._stemmer.stemWords(words)
        return stems


class Bm25Index:
    """Finds passages that share words with the query, the rarer and the more the better.

    Args:
        directory: holds a finished index.
    """

    def __init__(self, directory: Path) -> None:
        self._index = bm25s.BM25.load(directory, mmap=True)
        held = self._index.scores
        self._passages: int = held["num_docs"]
        # The same memory, without what numpy does for every slice of a mapped array.
        self._data, self._rows = np.asarray(held["data"]), np.asarray(held["indices"])
        self._starts = np.asarray(held["indptr"])
        self._analyze = Analyzer()

    @classmethod
    def open(cls, corpus: Corpus, directory: Path, on_progress: OnProgress) -> Bm25Index:
        """The index of ``corpus`` in ``directory``, built first if there is none.

        Raises:
            InputError: ``directory`` holds the index of another corpus, or a damaged one.
        """
        wanted = Bm25Manifest(
            fingerprint=corpus.manifest.fingerprint,
            passages=len(corpus),
            k1=K1,
            b=B,
            title_weight=TITLE_WEIGHT,
        )
        found = Bm25Manifest.load(directory)
        if found is None:
            _build(corpus, directory, on_progress)
            wanted.save(directory)
        elif found != wanted:
            raise InputError(
                f"{directory} holds another BM25 index ({found}), required: {wanted}; name "
                "another directory with --index or delete this one"
            )
        try:
            return cls(directory)
        except (OSError, EOFError, ValueError) as error:
            raise InputError(
                f"the BM25 index in {directory} is damaged ({error}); delete it to build it anew"
            ) from error

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """The best ``topk`` hits of every query, best first; ties in order of the corpus.

        A passage that shares no word with the query is never a hit.
        """
        return [self._search(query, topk) for query in queries]

    def _search(self, query: str, topk: int) -> list[Hit]:
        ids = self._index.get_tokens_ids(self._analyze(query))
        if not ids:
            return []
        scores = self._scores(ids)
        rows = np.flatnonzero(scores >= _least(scores, topk))
        found = scores[rows]
        best = np.argsort(-found, kind="stable")[:topk]
        return [Hit(int(rows[place]), float(found[place])) for place in best]

    def _scores(self, ids: Sequence[int]) -> np.ndarray:
        """The scores of all passages, as bm25s sums them up, in a tenth of its time.

        A word has a passage once, so that nothing is added twice to one place of ``scores`` and the
        slow ``np.add.at`` is not needed.
        """
        scores = np.zeros(self._passages, np.float32)
        for word in ids:
            there = slice(self._starts[word], self._starts[word + 1])
            scores[self._rows[there]] += self._data[there]
        return scores


def _least(scores: np.ndarray, topk: int) -> np.float32:
    """A score above 0 that the best ``topk`` reach, if so many are above 0, and few others do.

    It is the lowest of the best blocks' maxima, or close above 0 where there are too few blocks.
    """
    blocks = len(scores) // _PASSAGES
    if topk > blocks:
        return _ABOVE_0
    maxima = scores[: blocks * _PASSAGES].reshape(blocks, _PASSAGES).max(axis=1)
    return max(np.partition(maxima, -topk)[-topk], _ABOVE_0)


def _build(corpus: Corpus, directory: Path, on_progress: OnProgress) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    analyze = Analyzer()
    with Bm25Builder(directory, k1=K1, b=B) as builder:
        for block in corpus.blocks(_BLOCK):
            builder.add(map(analyze, _texts(block)))
            on_progress("reading words", builder.documents, len(corpus))
        builder.finish(lambda done: on_progress("computing scores", done, len(corpus)))


def _texts(passages: Iterable[Passage]) -> Iterable[str]:
    for passage in passages:
        yield " ".join([*[passage.title] * TITLE_WEIGHT, passage.text])
