"""The kinds of index, and the one function that opens or builds any of them."""

from __future__ import annotations

from pathlib import Path

from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.hybrid import HybridIndex
from evoprompt_retrieval.index import Backend, DenseSettings, OnProgress, SearchIndex
from evoprompt_retrieval.room import building


def open_index(
    corpus: Corpus,
    directory: Path,
    backend: Backend,
    dense: DenseSettings | None = None,
    on_progress: OnProgress | None = None,
) -> SearchIndex:
    """The index of ``corpus`` in ``directory``, built first if it is missing or unfinished.

    Raises:
        InputError: the directory holds an index of another corpus or encoder, or a setting is
            wrong.
        UnwritableError: there is no room for the index.
    """
    progress = on_progress or (lambda stage, done, total: None)
    if backend == "hybrid":
        parts: tuple[Backend, Backend] = ("bm25", "dense")
        return HybridIndex([open_index(corpus, directory, part, dense, progress) for part in parts])
    with building(directory):
        if backend == "bm25":
            return Bm25Index.open(corpus, directory / "bm25", progress)
        # FAISS and the encoder's libraries take seconds to load, and are an extra.
        from evoprompt_retrieval.dense import DenseIndex

        return DenseIndex.open(corpus, directory / "dense", dense or DenseSettings(), progress)
