"""Search indexes: their settings, how they are opened, and the fusion of two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from evoprompt_retrieval.corpus import Corpus, OnSkip

Backend = Literal["bm25", "dense", "hybrid"]
Device = Literal["cpu", "cuda"]
Dtype = Literal["float32", "float16", "bfloat16"]

OnProgress = Callable[[str, int, int], None]
"""Callback for progress, with the name of a stage, the number of done items and that of all items.
"""


class Hit(NamedTuple):
    """Passage that matches a query.

    Attributes:
        row: of the passage in its corpus.
        score: higher is better; comparable within one query only.
    """

    row: int
    score: float


class SearchIndex(Protocol):
    """Index that finds passages."""

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """Return the best ``topk`` hits of every query, best first; fewer with fewer matches."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Settings of an index.

    Attributes:
        corpus: file of the passages.
        folder: of the index.
        backend: by words, by meaning, or both fused.
        encoder: name or folder of a sentence-transformers model.
        faiss: ``Flat``, or an inverted file of FAISS; or ``Half``, which is as exact, in half
            precision, and divided over the GPUs if ``device`` is ``cuda``.
        faiss_search: search-time parameters of FAISS, ``"nprobe=64"``; empty for the defaults.
        device: of the encoder.
        dtype: of the encoder's weights; half precision is several times as fast on a GPU.
        vectors: flat FAISS index of the same passages by the same encoder, to be used in place of
            encoding them; None to encode.
    """

    corpus: Path
    folder: Path
    backend: Backend = "bm25"
    encoder: str = "intfloat/e5-base-v2"
    faiss: str = "Flat"
    faiss_search: str = ""
    device: Device = "cpu"
    dtype: Dtype = "float32"
    vectors: Path | None = None


def open_index(
    settings: IndexSettings,
    on_skip: OnSkip | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[Corpus, SearchIndex]:
    """Return the corpus and its index; build it first if it is missing or unfinished.

    Raises:
        InputError: the folder holds an index of another corpus or encoder, or a setting is wrong.
        UnwritableError: there is no room for the index.
    """
    from evoprompt.experiments.requirements import model_folder
    from evoprompt_retrieval.corpus import Corpus
    from evoprompt_retrieval.disk_space import building
    from evoprompt_retrieval.hub import require_hub

    progress = on_progress or (lambda stage, done, total: None)
    with building(settings.folder):
        corpus = Corpus.open(settings.corpus, settings.folder, on_skip)
        indexes: list[SearchIndex] = []
        if settings.backend != "dense":
            from evoprompt_retrieval.bm25 import Bm25Index

            indexes.append(Bm25Index.open(corpus, settings.folder / "bm25", progress))
        if settings.backend != "bm25":
            if model_folder(settings.encoder) is None:
                require_hub(settings.encoder)
            # FAISS and the encoder's libraries take seconds to load, and are an extra.
            from evoprompt_retrieval.dense import DenseIndex

            indexes.append(DenseIndex.open(corpus, settings, progress))
    return corpus, indexes[0] if len(indexes) == 1 else HybridIndex(indexes)


class HybridIndex:
    """Index by reciprocal-rank fusion: a passage scores the sum of ``1 / (10 + rank)``.

    Source: Cormack, Clarke and Buettcher, SIGIR 2009. Their constant is 60; 10 finds a little more
    among the first three (docs/notes/2026-11-22-retrieval.md).

    Args:
        indexes: over the same corpus.
    """

    def __init__(self, indexes: Sequence[SearchIndex]) -> None:
        self._indexes = indexes

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """Return the best ``topk`` hits of every query, best first; ties in order of the corpus."""
        answers = [index.search(queries, max(100, topk)) for index in self._indexes]
        return [self._fuse(rankings, topk) for rankings in zip(*answers, strict=True)]

    def _fuse(self, rankings: Sequence[Sequence[Hit]], topk: int) -> list[Hit]:
        scores: defaultdict[int, float] = defaultdict(float)
        for hits in rankings:
            for rank, hit in enumerate(hits, start=1):
                scores[hit.row] += 1 / (10 + rank)
        fused = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        return [Hit(row, score) for row, score in fused[:topk]]
