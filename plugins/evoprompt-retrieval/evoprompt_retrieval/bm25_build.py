"""Writes a BM25 index in the file format of bm25s, without holding the corpus in memory.

bm25s itself builds from lists of all tokens, which for 21 million passages take more memory than
most machines have. This writes the same numbers block by block; what stays in memory is the
vocabulary and a few numbers a passage and a word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import bm25s
import numpy as np

from evoprompt_retrieval.room import new_array


class Bm25Builder:
    """Collects documents, then computes the score of every word in every document.

    Score and inverse document frequency are bm25s's default, Lucene's:
    ``log(1 + (N - df + .5) / (df + .5)) * tf / (k1 * (1 - b + b * length / mean length) + tf)``.

    Args:
        directory: is written to; two temporary files in it go at the end, and all files of the
            index where it cannot be finished.
        k1: saturation of the term frequency.
        b: strength of the length normalisation, in [0, 1].
    """

    def __init__(self, directory: Path, *, k1: float, b: float) -> None:
        self._directory = directory
        self._k1, self._b = k1, b
        self._vocabulary: dict[str, int] = {}
        self._lengths: list[np.ndarray] = []
        self._uniques: list[np.ndarray] = []
        self._paths = (directory / "words.partial", directory / "counts.partial")
        self._made: list[Path] = []
        self._files = [path.open("wb") for path in self._paths]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as stack:  # the last first, all of them whatever one of them raises
            for path in (*self._paths, *(self._made if kind else ())):
                stack.callback(path.unlink, missing_ok=True)
            for file in self._files:
                stack.callback(file.close)

    @property
    def documents(self) -> int:
        """Number of documents added."""
        return sum(map(len, self._lengths))

    def add(self, documents: Iterable[Iterable[str]]) -> None:
        """Adds a block of documents, given as words."""
        vocabulary = self._vocabulary
        ids = [
            [vocabulary.setdefault(word, len(vocabulary)) for word in document]
            for document in documents
        ]
        lengths = np.array([len(document) for document in ids], np.int32)
        words = np.concatenate([np.array(document, np.int64) for document in ids])
        owners = np.repeat(np.arange(len(ids), dtype=np.int64), lengths)
        keys, counts = np.unique(owners << 32 | words, return_counts=True)
        self._lengths.append(lengths)
        self._uniques.append(np.bincount(keys >> 32, minlength=len(ids)).astype(np.int32))
        self._files[0].write((keys & 0xFFFFFFFF).astype(np.int32).data)
        self._files[1].write(counts.astype(np.int32).data)

    def finish(self, on_progress: Callable[[int], None]) -> None:
        """Writes the index; ``on_progress`` is told the number of documents done."""
        for file in self._files:
            file.flush()
        entries = sum(int(unique.sum()) for unique in self._uniques)
        words, counts = (
            np.memmap(path, np.int32, "r", shape=(entries,)) if entries else np.empty(0, np.int32)
            for path in self._paths
        )
        frequencies = np.zeros(len(self._vocabulary), np.int64)
        for start, stop, _ in self._spans():
            frequencies += np.bincount(words[start:stop], minlength=len(frequencies))
        self._scatter(words, counts, frequencies, on_progress)
        self._save_settings()

    def _scatter(
        self,
        words: np.ndarray,
        counts: np.ndarray,
        frequencies: np.ndarray,
        on_progress: Callable[[int], None],
    ) -> None:
        """Sorts the entries by word into the arrays of a sparse column matrix."""
        documents = self.documents
        words_in_all = sum(int(lengths.sum()) for lengths in self._lengths)
        mean = max(words_in_all, 1) / documents  # of stopwords alone, nothing is left
        idf = np.log1p((documents - frequencies + 0.5) / (frequencies + 0.5))
        pointers = np.concatenate([[0], np.cumsum(frequencies)])
        heads = pointers[:-1].copy()
        scores = self._create("data", np.float32, int(pointers[-1]))
        rows = self._create("indices", np.int32, int(pointers[-1]))
        done = 0
        for number, (start, stop, unique) in enumerate(self._spans()):
            lengths = self._lengths[number]
            penalty = self._k1 * (1 - self._b + self._b * lengths / mean)
            owners = np.repeat(np.arange(len(unique)), unique)
            order = np.argsort(words[start:stop], kind="stable")
            word, count = words[start:stop][order], counts[start:stop][order]
            owner = owners[order]
            distinct, first, repeats = np.unique(word, return_index=True, return_counts=True)
            places = heads[word] + np.arange(len(word)) - np.repeat(first, repeats)
            scores[places] = idf[word] * count / (penalty[owner] + count)
            rows[places] = done + owner
            heads[distinct] += repeats
            done += len(unique)
            on_progress(done)
        scores.flush()
        rows.flush()
        starts = self._create("indptr", np.int64, len(pointers))
        starts[:] = pointers
        starts.flush()

    def _spans(self) -> Iterable[tuple[int, int, np.ndarray]]:
        """First and last entry of every block, and the number of entries of its documents."""
        start = 0
        for unique in self._uniques:
            stop = start + int(unique.sum())
            yield start, stop, unique
            start = stop

    def _create(self, name: str, dtype: type[np.generic], length: int) -> np.memmap:
        return new_array(self._new(f"{name}.csc.index.npy"), dtype, (length,))

    def _new(self, name: str) -> Path:
        self._made.append(self._directory / name)
        return self._made[-1]

    def _save_settings(self) -> None:
        vocabulary = json.dumps(self._vocabulary, ensure_ascii=False)
        self._new("vocab.index.json").write_text(vocabulary, encoding="utf-8")
        settings = {
            "k1": self._k1,
            "b": self._b,
            "delta": 0.5,
            "method": "lucene",
            "idf_method": "lucene",
            "dtype": "float32",
            "int_dtype": "int32",
            "num_docs": self.documents,
            "version": bm25s.__version__,
            "backend": "numpy",
        }
        self._new("params.index.json").write_text(json.dumps(settings, indent=2))
