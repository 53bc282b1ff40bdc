"""What all indexes have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

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
        device: where the encoder lives.
        dtype: of the encoder's weights; half precision is several times as fast on a GPU.
    """

    encoder: str = "intfloat/e5-base-v2"
    faiss: str = "Flat"
    faiss_search: str = ""
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Dtype = "float32"
