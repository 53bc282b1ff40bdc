from __future__ import annotations

import resource
from pathlib import Path

import faiss
import numpy as np
import pytest
from evoprompt_retrieval import faiss_kinds
from evoprompt_retrieval.vectors import VectorFile

from evoprompt.errors import InputError

ROWS, DIMENSION = 1500, 16


def silent(stage: str, done: int, total: int) -> None:
    """Reports nothing."""


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> VectorFile:
    drawn = np.random.default_rng(1).standard_normal((ROWS, DIMENSION)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    file = VectorFile(tmp_path_factory.mktemp("vectors") / "vectors.faiss", ROWS, DIMENSION)
    file.append(drawn)
    return file


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        ("Flat", 1.0),
        ("IVF16,Flat", 0.9),
        ("IVF16,PQ8x4fs,RFlat", 0.8),
    ],
)
def test_every_kind_finds_nearly_what_the_exact_one_does(
    vectors: VectorFile, tmp_path: Path, spec: str, least: float
) -> None:
    path = tmp_path / "kind.faiss"
    if spec != "Flat":
        faiss_kinds.build(spec, vectors, path, silent)
    index = faiss_kinds.open_kind(spec, vectors, path)
    queries = np.ascontiguousarray(vectors.array()[::50])
    scores, rows = index.search(queries, 3)
    exact_scores, exact_rows = vectors.open().search(queries, 3)
    recall = np.mean([len({*a} & {*b}) / 3 for a, b in zip(rows, exact_rows, strict=True)])
    assert recall >= least
    # The second stage takes its scores from the exact vectors.
    np.testing.assert_allclose(scores[:, 0], exact_scores[:, 0], atol=1e-5)


def test_vectors_are_not_stored_a_second_time(vectors: VectorFile, tmp_path: Path) -> None:
    exact = ROWS * DIMENSION * 4
    path = tmp_path / "kind.faiss"
    faiss_kinds.build("IVF16,PQ8x4fs,RFlat", vectors, path, silent)
    assert path.stat().st_size < exact
    assert not isinstance(faiss.read_index(str(path)), faiss.IndexRefine)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("Nonsense", "required: 'Flat', or an inverted file"),
        ("HNSW32", "required: 'Flat', or an inverted file"),
        ("IVF4096,Flat", "training points"),
        ("IVF16,PQ7", "multiple"),
    ],
)
def test_an_impossible_kind_is_refused(
    vectors: VectorFile, tmp_path: Path, spec: str, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        faiss_kinds.build(spec, vectors, tmp_path / "kind.faiss", silent)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("lists", "searched"), [(8, 8), (16, 8), (32, 12)])
def test_three_of_eight_lists_are_searched(
    vectors: VectorFile, tmp_path: Path, lists: int, searched: int
) -> None:
    path = tmp_path / "kind.faiss"
    faiss_kinds.build(f"IVF{lists},Flat", vectors, path, silent)
    index = faiss_kinds.open_kind(f"IVF{lists},Flat", vectors, path)
    assert faiss.extract_index_ivf(index).nprobe == searched


def test_the_index_of_other_vectors_is_refused(vectors: VectorFile, tmp_path: Path) -> None:
    faiss_kinds.build("IVF16,Flat", vectors, tmp_path / "kind.faiss", silent)
    fewer = VectorFile(tmp_path / "vectors.faiss", 100, DIMENSION)
    fewer.append(vectors.array()[:100])
    with pytest.raises(InputError, match="indexes 1,500 vectors of 16 numbers; required: 100"):
        faiss_kinds.open_kind("IVF16,Flat", fewer, tmp_path / "kind.faiss")


def test_a_damaged_index_is_named(vectors: VectorFile, tmp_path: Path) -> None:
    (tmp_path / "kind.faiss").write_bytes(b"oops, no index")
    with pytest.raises(InputError, match="is damaged"):
        faiss_kinds.open_kind("IVF16,Flat", vectors, tmp_path / "kind.faiss")


def test_a_kind_for_which_there_is_no_room_is_not_kept(vectors: VectorFile, tmp_path: Path) -> None:
    path = tmp_path / "kind.faiss"
    faiss_kinds.build("IVF16,SQ8", vectors, path, silent)
    size = path.stat().st_size
    path.unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (size - 1, size // 2, 10):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                faiss_kinds.build("IVF16,SQ8", vectors, path, silent)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert list(tmp_path.iterdir()) == []
