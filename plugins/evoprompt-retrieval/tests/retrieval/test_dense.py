"""Search by meaning, with a small real encoder and FAISS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import faiss
import numpy as np
import pytest
import torch
from evoprompt_retrieval import dense
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.dense import DenseIndex, Encoder
from evoprompt_retrieval.index import Hit, HybridIndex, IndexSettings, open_index
from evoprompt_retrieval.vectors import VectorFile
from transformers import AutoModel, AutoTokenizer

from evoprompt.support.errors import InputError

ROWS, DIMENSION = 1500, 16


@pytest.fixture(scope="module")
def settings(corpus_file: Path, index_folder: Path, encoder_name: str) -> IndexSettings:
    return IndexSettings(corpus_file, index_folder, "dense", encoder_name)


@pytest.fixture(scope="module")
def index(settings: IndexSettings) -> DenseIndex:
    found = open_index(settings)[1]
    assert isinstance(found, DenseIndex)
    return found


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> VectorFile:
    drawn = np.random.default_rng(1).standard_normal((ROWS, DIMENSION)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    file = VectorFile(tmp_path_factory.mktemp("vectors") / "vectors.faiss", ROWS, DIMENSION)
    for half in np.split(drawn, 2):
        file.append(half)
    return file


def opened(vectors: VectorFile, kind: str) -> faiss.Index:
    chosen = IndexSettings(Path(), Path(), faiss=kind)
    found = dense._open_faiss(vectors, chosen, lambda stage, done, total: None)
    assert isinstance(found, faiss.Index)
    return found


def rows(index: DenseIndex, *queries: str) -> list[list[int]]:
    return [[hit.row for hit in hits] for hits in index.search(queries, 3)]


def test_passages_are_found_by_meaning(index: DenseIndex, corpus: Corpus) -> None:
    found = index.search(["highest steeple on earth", "a funny show on stage", ""], 1000)
    assert [len(hits) for hits in found] == [len(corpus), len(corpus), 0]
    assert corpus[found[0][0].row].title == "Ulm Minster"
    assert {corpus[hit.row].title for hit in found[1][:2]} <= {"Comedy", "Théâtre"}
    assert all(hits[0].score >= hits[1].score for hits in found[:2])


def test_an_interrupted_build_goes_on_where_it_stopped(
    index: DenseIndex, settings: IndexSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "_BLOCK", 4)
    whole, encoded = Encoder.encode_passages, list[str]()

    def failing(self: Encoder, passages: Sequence[str]) -> np.ndarray:
        if len(encoded) == 8:
            encoded.append("stopped")
            raise KeyboardInterrupt
        encoded.extend(passages)
        return whole(self, passages)

    monkeypatch.setattr(Encoder, "encode_passages", failing)
    elsewhere = IndexSettings(settings.corpus, tmp_path, "dense", settings.encoder)
    with pytest.raises(KeyboardInterrupt):
        open_index(elsewhere)
    corpus, resumed = open_index(elsewhere)
    assert [one for one in encoded if one != "stopped"] == [
        corpus[row].contents for row in range(len(corpus))
    ]
    assert isinstance(resumed, DenseIndex)
    assert rows(resumed, "copper") == rows(index, "copper")


def test_kinds_share_one_set_of_vectors(
    index: DenseIndex, settings: IndexSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "encode_passages", None)
    where = settings.corpus, settings.folder
    kind = IndexSettings(*where, "dense", settings.encoder, "IVF1,Flat", "nprobe=1")
    inverted = open_index(kind)[1]
    assert isinstance(inverted, DenseIndex)
    assert rows(inverted, "river", "metal") == rows(index, "river", "metal")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"encoder": "another/encoder"}, "another/encoder"),
        ({"faiss_search": "nprobe=3"}, r"--faiss-search is 'nprobe=3'"),
        ({"faiss": "Half", "faiss_search": "nprobe=3"}, "with --faiss Half; required: none"),
        ({"faiss": "HNSW32"}, "required: 'Flat', 'Half', or an inverted file"),
    ],
)
def test_what_does_not_fit_the_index_is_refused(
    index: DenseIndex, settings: IndexSettings, change: dict[str, str], said: str
) -> None:
    wanted = {"encoder": settings.encoder, **change}
    with pytest.raises(InputError, match=said):
        open_index(IndexSettings(settings.corpus, settings.folder, "dense", **wanted))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "least"), [("Flat", 1.0), ("IVF16,Flat", 0.9), ("IVF16,PQ8x4fs,RFlat", 0.8)]
)
def test_every_kind_finds_nearly_what_the_exact_one_does(
    vectors: VectorFile, kind: str, least: float
) -> None:
    index = opened(vectors, kind)
    queries = np.ascontiguousarray(vectors.array()[::50])
    scores, found = index.search(queries, 3)
    exact = queries @ vectors.array().T
    best = np.argsort(-exact, axis=1)[:, :3]
    recall = np.mean([len({*a} & {*b}) / 3 for a, b in zip(found, best, strict=True)])
    assert recall >= least
    # The second stage takes its scores from the exact vectors, which are stored once.
    np.testing.assert_allclose(scores[:, 0], exact.max(1), atol=1e-5)


@pytest.mark.parametrize(("kind", "reason"), [("IVF4096,Flat", "points"), ("IVF16,PQ7", "divide")])
def test_an_impossible_kind_is_refused(vectors: VectorFile, kind: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        opened(vectors, kind)


@pytest.mark.parametrize("content", [b"oops, no index", b""])
def test_a_damaged_index_is_named(vectors: VectorFile, content: bytes) -> None:
    path = vectors.path.with_name("kind-IVF8_Flat.faiss")
    path.write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        opened(vectors, "IVF8,Flat")


def pooled(folder: str, texts: list[str]) -> np.ndarray:
    """Mean of the last hidden states over real tokens, normalised: E5's own recipe."""
    tokens = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = AutoModel.from_pretrained(folder)(**tokens).last_hidden_state
    mask = tokens["attention_mask"][..., None]
    means = (hidden * mask).sum(1) / mask.sum(1)
    found: np.ndarray = torch.nn.functional.normalize(means, dim=1).numpy()
    return found


def test_the_e5_family_gets_its_prefixes_mean_pooling_and_unit_length(
    encoder_name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "e5-small-v2"  # a bare transformer whose name says what it is
    folder.mkdir()
    for file in Path(encoder_name).iterdir():
        if file.name in ("config.json", "model.safetensors") or "token" in file.name:
            (folder / file.name).symlink_to(file)
    e5 = Encoder(str(folder))
    texts = ["who built Ulm Minster", "Ulm Minster is a church, and a rather tall one at that."]
    for vectors, prefix in (
        (e5.encode_queries(texts), "query: "),
        (e5.encode_passages(texts), "passage: "),
    ):
        expected = pooled(encoder_name, [prefix + text for text in texts])
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
    plain = Encoder(encoder_name, dtype="bfloat16")
    found = plain.encode_queries(texts)
    np.testing.assert_array_equal(found, plain.encode_passages(texts))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, pooled(encoder_name, texts), atol=0.02)


def test_a_model_or_a_gpu_that_is_not_here_is_an_error(
    tmp_path: Path, encoder_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="check --encoder"):
        Encoder(str(tmp_path / "none"))

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(dense, "SentenceTransformer", refuse)
    with pytest.raises(InputError, match=r"cannot be put on cuda .*; use --device cpu"):
        Encoder(encoder_name, "cuda")


class Fixed:
    """Always finds the same rows."""

    def __init__(self, *rows: int) -> None:
        self._rows = rows

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        return [[Hit(row, 9.0) for row in self._rows[:topk]] for _ in queries]


def test_fused_scores_are_sums_of_reciprocal_ranks_and_ties_keep_the_order_of_the_corpus() -> None:
    hits = HybridIndex([Fixed(4, 5), Fixed(5, 6)]).search(["x"], 3)[0]
    assert hits == [(5, pytest.approx(1 / 11 + 1 / 12)), (4, 1 / 11), (6, 1 / 12)]
    ties = HybridIndex([Fixed(8, 1), Fixed(3, 2)]).search(["x", "y"], 4)
    assert [[hit.row for hit in found] for found in ties] == [[3, 8, 1, 2]] * 2
    beyond = HybridIndex([Fixed(1, 2, 7), Fixed(3, 4, 7)])  # ranks beyond topk count
    assert beyond.search(["x"], 1)[0][0].row == 7


@pytest.mark.parametrize("gpus", [1, 3])
def test_half_precision_in_shares_finds_what_the_exact_index_finds(
    vectors: VectorFile, monkeypatch: pytest.MonkeyPatch, gpus: int
) -> None:
    # Shares of several GPUs, which lie on the CPU here, and several blocks of each.
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch, "device", lambda *place: "cpu")
    monkeypatch.setattr(dense, "_SCORED", 200)
    monkeypatch.setattr(dense, "_ADDED", 128)
    chosen = IndexSettings(Path(), Path(), faiss="Half", device="cuda")
    half = dense._open_faiss(vectors, chosen, lambda stage, done, total: None)
    assert half.ntotal == ROWS
    queries = vectors.array()[::100].copy()
    scores, rows = half.search(queries, 10)
    exact_scores, exact_rows = opened(vectors, "Flat").search(queries, 10)
    assert np.allclose(scores, exact_scores, atol=2e-3)
    assert (rows[:, 0] == np.arange(0, ROWS, 100)).all(), "each is nearest to itself"
    shared = [len(set(mine) & set(theirs)) for mine, theirs in zip(rows, exact_rows, strict=True)]
    assert sum(shared) >= 0.97 * rows.size


def test_vectors_of_somebody_else_are_used_without_encoding(
    index: DenseIndex, settings: IndexSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = tmp_path / "e5_Flat.index"
    faiss.write_index(
        faiss.read_index(str(settings.folder / "dense/vectors.faiss")), str(published)
    )
    encoded: list[str] = []
    whole = Encoder.encode_passages

    def noting(self: Encoder, passages: Sequence[str]) -> np.ndarray:
        encoded.extend(passages)
        return whole(self, passages)

    monkeypatch.setattr(Encoder, "encode_passages", noting)
    monkeypatch.setattr(dense, "_COMPARED", 3)
    taken = replace(settings, folder=tmp_path / "index", vectors=published)
    for _ in range(2):  # a second build finds them there
        found = open_index(taken)[1]
        assert isinstance(found, DenseIndex)
        assert rows(found, "copper", "a funny show") == rows(index, "copper", "a funny show")
    assert len(encoded) == 6


def test_vectors_that_are_not_of_these_passages_are_refused_in_a_line(
    index: DenseIndex, settings: IndexSettings, corpus: Corpus, tmp_path: Path
) -> None:
    array = np.array(faiss.read_index(str(settings.folder / "dense/vectors.faiss")).reconstruct_n())
    cases = {
        "turned": (faiss.IndexFlatIP(array.shape[1]), array[::-1].copy(), "not what the encoder"),
        "few": (faiss.IndexFlatIP(array.shape[1]), array[1:], f"of {len(corpus):,} vectors of"),
        "other": (faiss.IndexFlatL2(array.shape[1]), array, "IndexFlatIP"),
    }
    for name, (kind, held, told) in cases.items():
        kind.add(held)
        file = tmp_path / f"{name}.index"
        faiss.write_index(kind, str(file))
        with pytest.raises(InputError, match=told) as refused:
            open_index(replace(settings, folder=tmp_path / name, vectors=file))
        assert "\n" not in str(refused.value)
        assert not (tmp_path / name / "dense/vectors.faiss").exists()
    own = tmp_path / "own.index"
    own.write_bytes((settings.folder / "dense/vectors.faiss").read_bytes())
    with pytest.raises(InputError, match="has vectors already"):
        open_index(replace(settings, vectors=own))
