"""Lexical search over the passages of a world."""

from __future__ import annotations

from collections.abc import Sequence

import bm25s
import numpy as np

TOP_K = 3


class Retriever:
    """BM25 search over one-sentence passages with a cache: a repeated query costs nothing.

    Args:
        passages: to search, as words separated by spaces.
        top_k: passages returned, at most.
    """

    def __init__(self, passages: Sequence[str], top_k: int = TOP_K) -> None:
        self._passages = passages
        self._top_k = top_k
        self._vocabulary = {word for passage in passages for word in passage.split()}
        self._index = bm25s.BM25()
        self._index.index([passage.split() for passage in passages], show_progress=False)
        self._cache: dict[str, tuple[str, ...]] = {}

    def search(self, query: str) -> tuple[str, ...]:
        """Return the best passages for ``query``, best first; fewer if fewer share a word."""
        if query not in self._cache:
            self._cache[query] = self._search(query)
        return self._cache[query]

    def _search(self, query: str) -> tuple[str, ...]:
        words = [word for word in dict.fromkeys(query.split()) if word in self._vocabulary]
        if not words:
            return ()
        scores = self._index.get_scores(words)
        # A stable sort: bm25s leaves the order of equal scores to numpy's partition.
        best = np.argsort(-scores, kind="stable")[: self._top_k]
        return tuple(self._passages[index] for index in best if scores[index] > 0)
