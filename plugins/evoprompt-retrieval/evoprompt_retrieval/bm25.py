"""Search by words: BM25, its scores computed beforehand by bm25s and memory-mapped."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Sequence
from pathlib import Path

import bm25s
import numpy as np
import Stemmer
from bm25s.stopwords import STOPWORDS_EN

from evoprompt.support.errors import InputError, warn
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.disk_space import Manifest, save_array
from evoprompt_retrieval.index import Hit, OnProgress

K1, B = 0.9, 0.4
"""Parameters of Anserini for Wikipedia passages."""

TITLE_WEIGHT = 2
"""A title counts twice: better than once on all four sets of training questions that we have."""

_ARRAYS = ("data", "indices", "indptr")
"""Of a sparse column matrix, a column a word."""

_BLOCK = 20_000
_PASSAGES = 512
"""Number of passages in a block of scores, whose maximum is compared first."""

_ABOVE_0 = np.finfo(np.float32).tiny
# In the scripts of India vowels are signs, which are no letters for \w and would end a word.
_WORD = re.compile(r"[\w\u0900-\u0963\u0966-\u0dff]{2,}")
_STOPWORDS = frozenset(STOPWORDS_EN)
_UNSPACED = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Of languages without spaces between words, from Thai and Tibetan to Japanese and Chinese."""


class Analyzer:
    """Splitter of text into comparable words."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")

    def __call__(self, text: str) -> list[str]:
        """Return the English word stems of ``text``, without stopwords and words of one letter."""
        words = [word for word in _WORD.findall(text.lower()) if word not in _STOPWORDS]
        stems: list[str] = self._stemmer.stemWords(words)
        return stems


class Bm25Index:
    """Index of passages by BM25; passages with more and rarer words of the query rank higher.

    Args:
        directory: of a finished index.
        passages: number of passages in the corpus.
    """

    def __init__(self, directory: Path, passages: int) -> None:
        self._passages = passages
        self._vocabulary: dict[str, int] = json.loads((directory / "words.json").read_bytes())
        arrays = (np.load(directory / f"{name}.npy", mmap_mode="r") for name in _ARRAYS)
        # The same memory, without what numpy does for every slice of a mapped array.
        self._data, self._rows, self._starts = map(np.asarray, arrays)
        self._analyze = Analyzer()
        self._has_warned = False

    @classmethod
    def open(cls, corpus: Corpus, directory: Path, on_progress: OnProgress) -> Bm25Index:
        """Return the index of ``corpus`` in ``directory``; build it first if there is none.

        Raises:
            InputError: ``directory`` holds the index of another corpus, or a damaged one.
        """
        path = directory / "bm25.json"
        settings: dict[str, str | int | float] = {"k1": K1, "b": B, "title_weight": TITLE_WEIGHT}
        expected = corpus.manifest.model_copy(update={"settings": settings})
        if (manifest := Manifest.load(path)) is None:
            _build(corpus, directory, on_progress)
            expected.save(path)
        else:
            manifest.require(expected, path)
        try:
            return cls(directory, len(corpus))
        except (OSError, EOFError, ValueError) as error:
            raise InputError(
                f"the BM25 index in {directory} is damaged ({error}); delete it to build it anew"
            ) from error

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """Return the best ``topk`` hits of every query, best first; ties in order of the corpus.

        A passage that shares no word with the query is never a hit. A warning names the first query
        without a word for BM25.
        """
        return [self._search(query, topk) for query in queries]

    def _search(self, query: str, topk: int) -> list[Hit]:
        stems = self._analyze(query)
        if not stems and not self._has_warned:
            self._has_warned = True
            warn(
                f"no word of the query {query[:80]!r} can be searched for: BM25 knows words of two "
                "letters and more that are no English stopwords; other such queries find nothing, "
                "too"
            )
        words = [self._vocabulary.get(word) for word in stems]
        scores = np.zeros(self._passages, np.float32)
        for word in words:
            # A word lists each passage once, so the slow np.add.at is not needed.
            if word is not None:
                span = slice(self._starts[word], self._starts[word + 1])
                scores[self._rows[span]] += self._data[span]
        rows = np.flatnonzero(scores >= _score_threshold(scores, topk))
        best = rows[np.argsort(-scores[rows], kind="stable")[:topk]]
        return [Hit(int(row), float(scores[row])) for row in best]


def _score_threshold(scores: np.ndarray, topk: int) -> np.float32:
    """Return a score above 0 that the best ``topk`` reach, if so many are above 0, and few others.

    It is the lowest of the best blocks' maxima, or close above 0 if there are too few blocks.
    """
    blocks = len(scores) // _PASSAGES
    if topk > blocks:
        return _ABOVE_0
    maxima = scores[: blocks * _PASSAGES].reshape(blocks, _PASSAGES).max(axis=1)
    return max(np.partition(maxima, -topk)[-topk], _ABOVE_0)


def _build(corpus: Corpus, directory: Path, on_progress: OnProgress) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    analyze = Analyzer()
    vocabulary: dict[str, int] = {}
    documents: list[array[int]] = []
    unspaced = 0
    for block in corpus.blocks(_BLOCK):
        for passage in block:
            unspaced += 2 * len(_UNSPACED.findall(passage.text[:200])) > len(passage.text[:200])
            words = analyze(" ".join([*[passage.title] * TITLE_WEIGHT, passage.text]))
            documents.append(array("i", [vocabulary.setdefault(w, len(vocabulary)) for w in words]))
        on_progress("reading words", len(documents), len(corpus))
    if unspaced:
        warn(
            f"{unspaced:,} of {len(corpus):,} passages are in languages without spaces between "
            "words, such as Chinese, Japanese and Thai, where BM25 finds no words; required for "
            "them: an index by meaning (--backend dense) with an encoder that knows the language"
        )
    scores: dict[
        str, np.ndarray
    ] = {  # of stopwords alone nothing is left, and bm25s would divide by their number
        "data": np.zeros(0, np.float32),
        "indices": np.zeros(0, np.int32),
        "indptr": np.zeros(1, np.int64),
    }
    if vocabulary:
        model = bm25s.BM25(k1=K1, b=B)
        scores = model.build_index_from_ids(range(len(vocabulary)), documents, show_progress=False)
    for name in _ARRAYS:
        save_array(directory / f"{name}.npy", scores[name])
    (directory / "words.json").write_text(json.dumps(vocabulary), encoding="utf-8")
