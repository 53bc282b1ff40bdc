"""Answers queries over one index, many at a time, in a thread beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec

from evoprompt_retrieval.batching import MicroBatcher
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import Hit, SearchIndex
from evoprompt_retrieval.requests import ServerLimits, Wanted


class _Item(NamedTuple):
    query: str
    topk: int
    with_scores: bool


class Searcher:
    """Searches and writes what is found, so that the event loop only passes bytes on.

    Args:
        corpus: holds the passages.
        index: finds their rows.
        limits: of a batch.
    """

    def __init__(self, corpus: Corpus, index: SearchIndex, limits: ServerLimits) -> None:
        self._corpus = corpus
        self._index = index
        self._batch = limits.batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="search")
        self.batcher = MicroBatcher[_Item, bytes](
            self._search_beside, max_items=limits.batch, max_waiting=limits.waiting
        )

    def close(self) -> None:
        """Ends the thread; what it does now is finished."""
        self._thread.shutdown(cancel_futures=True)

    async def answer(self, wanted: Wanted) -> bytes:
        """The body of the answer.

        A large request is searched in parts, so that smaller ones get their turn in between.

        Raises:
            OverloadedError: too many queries are waiting.
        """
        items = [_Item(query, wanted.topk, wanted.with_scores) for query in wanted.queries]
        parts: list[bytes] = []
        for start in range(0, len(items), self._batch):
            parts += await self.batcher.submit(items[start : start + self._batch])
        return b'{"result":[%s]}' % b",".join(parts)

    async def _search_beside(self, items: Sequence[_Item]) -> Sequence[bytes]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._search, items)

    def _search(self, items: Sequence[_Item]) -> Sequence[bytes]:
        found: dict[_Item, bytes] = {}
        for topk, with_scores in sorted({(item.topk, item.with_scores) for item in items}):
            alike = [one for one in dict.fromkeys(items) if one[1:] == (topk, with_scores)]
            hits = self._index.search([item.query for item in alike], topk)
            for item, found_hits in zip(alike, hits, strict=True):
                found[item] = self._write(found_hits, with_scores)
        return [found[item] for item in items]

    def _write(self, hits: Sequence[Hit], with_scores: bool) -> bytes:
        documents = [self._document(row) for row, _ in hits]
        if not with_scores:
            return msgspec.json.encode(documents)
        scored = zip(documents, hits, strict=True)
        return msgspec.json.encode(
            [{"document": document, "score": hit.score} for document, hit in scored]
        )

    def _document(self, row: int) -> dict[str, str]:
        passage = self._corpus[row]
        return {"id": passage.id, "contents": passage.contents}
