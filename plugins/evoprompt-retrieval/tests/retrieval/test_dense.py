from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from evoprompt_retrieval.backends import open_index
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.dense import DenseIndex
from evoprompt_retrieval.encoder import Encoder
from evoprompt_retrieval.hybrid import HybridIndex
from evoprompt_retrieval.index import DenseSettings

from evoprompt.errors import InputError


def silent(stage: str, done: int, total: int) -> None:
    """Reports nothing."""


@pytest.fixture(scope="module")
def settings(encoder_name: str) -> DenseSettings:
    return DenseSettings(encoder=encoder_name)


@pytest.fixture(scope="module")
def index(corpus: Corpus, index_folder: Path, settings: DenseSettings) -> DenseIndex:
    return DenseIndex.open(corpus, index_folder / "dense", settings, silent)


def test_passages_are_found_by_meaning(index: DenseIndex, corpus: Corpus) -> None:
    found = index.search(["highest steeple on earth", "a funny show on stage"], 2)
    assert corpus[found[0][0].row].title == "Ulm Minster"
    assert {corpus[hit.row].title for hit in found[1]} <= {"Comedy", "Théâtre"}
    assert all(hits[0].score >= hits[1].score for hits in found)


def test_an_empty_query_has_no_hits_and_topk_may_exceed_the_corpus(
    index: DenseIndex, corpus: Corpus
) -> None:
    found = index.search(["", "copper", "  "], 1000)
    assert [len(hits) for hits in found] == [0, len(corpus), 0]
    assert index.search([""], 3) == [[]]


def test_kinds_share_one_set_of_vectors(
    corpus: Corpus,
    index: DenseIndex,
    index_folder: Path,
    encoder_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Encoder, "encode_passages", None)
    kind = DenseSettings(encoder=encoder_name, faiss="IVF1,Flat", faiss_search="nprobe=1")
    graph = DenseIndex.open(corpus, index_folder / "dense", kind, silent)
    queries = ["river", "metal"]
    rows = [[hit.row for hit in hits] for hits in graph.search(queries, 3)]
    assert rows == [[hit.row for hit in hits] for hits in index.search(queries, 3)]


def test_an_interrupted_build_goes_on_where_it_stopped(
    corpus: Corpus,
    index: DenseIndex,
    settings: DenseSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("evoprompt_retrieval.dense._BLOCK", 4)
    whole = Encoder.encode_passages
    encoded: list[str] = []

    def failing(self: Encoder, passages: list[str]) -> np.ndarray:
        if len(encoded) == 8:
            raise KeyboardInterrupt
        encoded.extend(passages)
        return whole(self, passages)

    monkeypatch.setattr(Encoder, "encode_passages", failing)
    with pytest.raises(KeyboardInterrupt):
        DenseIndex.open(corpus, tmp_path, settings, silent)

    again: list[str] = []

    def counting(self: Encoder, passages: list[str]) -> np.ndarray:
        again.extend(passages)
        return whole(self, passages)

    monkeypatch.setattr(Encoder, "encode_passages", counting)
    resumed = DenseIndex.open(corpus, tmp_path, settings, silent)
    assert encoded + again == [corpus[row].contents for row in range(len(corpus))]
    found, expected = resumed.search(["copper"], 3)[0], index.search(["copper"], 3)[0]
    assert [hit.row for hit in found] == [hit.row for hit in expected]


def test_an_index_of_another_encoder_is_refused(
    corpus: Corpus, index: DenseIndex, index_folder: Path
) -> None:
    with pytest.raises(InputError, match="not of 'another/encoder'"):
        DenseIndex.open(
            corpus, index_folder / "dense", DenseSettings(encoder="another/encoder"), silent
        )


def test_an_index_of_another_corpus_is_refused(
    index: DenseIndex, index_folder: Path, settings: DenseSettings, tmp_path: Path
) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"id": "0", "contents": "something else"}\n')
    with pytest.raises(InputError, match="holds the vectors of another corpus"):
        DenseIndex.open(Corpus.open(path, tmp_path), index_folder / "dense", settings, silent)


def test_an_encoder_of_another_dimension_is_refused(encoder_name: str) -> None:
    import faiss

    with pytest.raises(InputError, match="384 numbers, but the index holds vectors of 5"):
        DenseIndex(Encoder(encoder_name), faiss.IndexFlatIP(5))


def test_search_parameters_that_do_not_fit_are_refused(
    corpus: Corpus, index: DenseIndex, index_folder: Path, encoder_name: str
) -> None:
    wrong = DenseSettings(encoder=encoder_name, faiss_search="nprobe=3")
    with pytest.raises(InputError, match=r"--faiss-search is 'nprobe=3'"):
        DenseIndex.open(corpus, index_folder / "dense", wrong, silent)


def test_both_indexes_are_fused(
    corpus: Corpus, index: DenseIndex, index_folder: Path, settings: DenseSettings
) -> None:
    hybrid = open_index(corpus, index_folder, "hybrid", settings)
    assert isinstance(hybrid, HybridIndex)
    hits = hybrid.search(["which river reaches the Black Sea"], 3)[0]
    assert corpus[hits[0].row].title in ("Danube", "Black Sea")
