"""Search by meaning: passages whose vectors are near the query's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import faiss

from evoprompt.errors import InputError
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.encoder import Encoder
from evoprompt_retrieval.faiss_kinds import build, open_kind
from evoprompt_retrieval.index import DenseSettings, Hit, OnProgress
from evoprompt_retrieval.manifest import DenseManifest
from evoprompt_retrieval.vectors import VectorFile

_BLOCK = 1024


class DenseIndex:
    """Finds passages by the inner product of unit vectors.

    Args:
        encoder: of the queries.
        index: a FAISS index of the passages.

    Attributes:
        faiss: that index.

    Raises:
        InputError: their dimensions differ.
    """

    def __init__(self, encoder: Encoder, index: faiss.Index) -> None:
        if encoder.dimension != index.d:
            raise InputError(
                f"the encoder {encoder.name!r} makes vectors of {encoder.dimension} numbers, but "
                f"the index holds vectors of {index.d}; use the encoder the index was built with"
            )
        self._encoder = encoder
        self.faiss = index

    @classmethod
    def open(
        cls, corpus: Corpus, directory: Path, settings: DenseSettings, on_progress: OnProgress
    ) -> DenseIndex:
        """The index of ``corpus`` in ``directory``, built first if it is missing.

        An interrupted build goes on where it stopped. Several kinds of FAISS index share one
        directory and one set of vectors.

        Raises:
            InputError: ``directory`` belongs to another corpus or encoder, or a setting is wrong.
        """
        found = DenseManifest.load(directory)
        if found is not None:
            _check(found, corpus, directory, settings)
        encoder = Encoder(settings.encoder, settings.device, settings.dtype)
        if found is None:
            directory.mkdir(parents=True, exist_ok=True)
            found = DenseManifest(
                fingerprint=corpus.manifest.fingerprint,
                passages=len(corpus),
                encoder=settings.encoder,
                dimension=encoder.dimension,
            )
            found.save(directory)
        vectors = VectorFile(directory / "vectors.faiss", found.passages, found.dimension)
        _encode(corpus, encoder, vectors, on_progress)
        return cls(encoder, _open_faiss(vectors, settings, on_progress))

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """The best ``topk`` hits of every query, best first; none for an empty query."""
        asked = [place for place, query in enumerate(queries) if query.strip()]
        answers: list[list[Hit]] = [[] for _ in queries]
        if asked:
            vectors = self._encoder.encode_queries([queries[place] for place in asked])
            scores, rows = self.faiss.search(vectors, min(topk, self.faiss.ntotal))
            for place, row_scores, row_rows in zip(asked, scores, rows, strict=True):
                answers[place] = [
                    Hit(int(row), float(score))
                    for row, score in zip(row_rows, row_scores, strict=True)
                    if row >= 0
                ]
        return answers


def _check(found: DenseManifest, corpus: Corpus, directory: Path, settings: DenseSettings) -> None:
    if found.fingerprint != corpus.manifest.fingerprint or found.passages != len(corpus):
        raise InputError(
            f"{directory} holds the vectors of another corpus ({found.passages:,} passages), not "
            f"of {corpus.manifest.source} ({len(corpus):,}); name another directory with --index"
        )
    if found.encoder != settings.encoder:
        raise InputError(
            f"{directory} holds vectors of the encoder {found.encoder!r}, not of "
            f"{settings.encoder!r}; give --encoder {found.encoder} or another --index"
        )


def _encode(corpus: Corpus, encoder: Encoder, vectors: VectorFile, on_progress: OnProgress) -> None:
    for block in corpus.blocks(_BLOCK, start=vectors.done):
        vectors.append(encoder.encode_passages([passage.contents for passage in block]))
        on_progress("encoding passages", vectors.done, vectors.rows)


def _open_faiss(
    vectors: VectorFile, settings: DenseSettings, on_progress: OnProgress
) -> faiss.Index:
    name = re.sub(r"[^\w]+", "_", settings.faiss)
    path = vectors.path.with_name(f"kind-{name}.faiss")
    if settings.faiss != "Flat" and not path.exists():
        build(settings.faiss, vectors, path, on_progress)
    index = open_kind(settings.faiss, vectors, path)
    if settings.faiss_search:
        try:
            faiss.ParameterSpace().set_index_parameters(index, settings.faiss_search)  # type: ignore[arg-type]
        except RuntimeError as error:
            raise InputError(
                f"--faiss-search is {settings.faiss_search!r}, which FAISS refuses for "
                f"{settings.faiss!r} ({error}); required: such as 'nprobe=64'"
            ) from error
    return index
