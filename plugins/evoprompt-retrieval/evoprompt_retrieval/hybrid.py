"""Several indexes as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from evoprompt_retrieval.index import Hit, SearchIndex


class HybridIndex:
    """Reciprocal-rank fusion: a passage scores the sum of ``1 / (constant + rank)``.

    Source: Cormack, Clarke and Buettcher, SIGIR 2009. Their constant is 60; 10 finds a little more
    among the first three (docs/notes/2026-11-22-retrieval.md).

    Args:
        indexes: over the same corpus.
        depth: ranks of each index that count, at least the largest ``topk``.
        constant: how little the first ranks stand out.
    """

    def __init__(
        self, indexes: Sequence[SearchIndex], depth: int = 100, constant: int = 10
    ) -> None:
        self._indexes = indexes
        self._depth = depth
        self._constant = constant

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """The best ``topk`` hits of every query, best first; ties in order of the corpus."""
        depth = max(self._depth, topk)
        answers = [index.search(queries, depth) for index in self._indexes]
        return [self._fuse(rankings, topk) for rankings in zip(*answers, strict=True)]

    def _fuse(self, rankings: Sequence[Sequence[Hit]], topk: int) -> list[Hit]:
        scores: defaultdict[int, float] = defaultdict(float)
        for hits in rankings:
            for rank, hit in enumerate(hits, start=1):
                scores[hit.row] += 1 / (self._constant + rank)
        fused = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        return [Hit(row, score) for row, score in fused[:topk]]
