"""What all indexes have in common, and the one function that opens or builds any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from evoprompt_search_qa.retrieval.corpus import Corpus

Backend = Literal["bm25", "dense", "hybrid"]
Dtype = Literal["float32", "float16", "bfloat16"]

OnProgress = Callable[[str, int, int], None]
"""Is told of a stage's name, of what is done and of what there is to do."""


class Hit(NamedTuple):
    """A passage that was found.

    Attributes:
        row: of the passage in its corpus.
        score: higher is better; comparable within one query only.
    """

    row: int
    score: float


class SearchIndex(Protocol):
    """Finds passages."""

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """The best ``topk`` hits of every query, best first; fewer where nothing else matches."""
        ...


@dataclass(frozen=True, slots=True)
class DenseSettings:
    """How passages are encoded and searched by vector.

    Attributes:
        encoder: name or folder of a sentence-transformers model.
        faiss: factory string of the FAISS index.
        faiss_search: search-time parameters of FAISS, ``"nprobe=64"``; empty for the defaults.
        device: where encoder and, if FAISS can, index live.
        dtype: of the encoder's weights; half precision is several times as fast on a GPU.
    """

    encoder: str = "intfloat/e5-base-v2"
    faiss: str = "Flat"
    faiss_search: str = ""
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Dtype = "float32"


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
    """
    progress = on_progress or (lambda stage, done, total: None)
    if backend == "bm25":
        from evoprompt_search_qa.retrieval.bm25 import Bm25Index

        return Bm25Index.open(corpus, directory / "bm25", progress)
    if backend == "dense":
        from evoprompt_search_qa.retrieval.dense import DenseIndex

        return DenseIndex.open(corpus, directory / "dense", dense or DenseSettings(), progress)
    from evoprompt_search_qa.retrieval.hybrid import HybridIndex

    parts: tuple[Backend, Backend] = ("bm25", "dense")
    return HybridIndex([open_index(corpus, directory, part, dense, progress) for part in parts])
