from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest
from evoprompt_retrieval.vectors import VectorFile

from evoprompt.errors import InputError

VECTORS = np.random.default_rng(5).standard_normal((40, 6)).astype(np.float32)


def written(path: Path) -> VectorFile:
    file = VectorFile(path, 40, 6)
    for start in range(0, 40, 15):
        file.append(VECTORS[start : start + 15])
    return file


def test_the_file_is_the_flat_index_that_faiss_would_write(tmp_path: Path) -> None:
    written(tmp_path / "ours.faiss")
    theirs = faiss.IndexFlatIP(6)
    theirs.add(VECTORS)
    faiss.write_index(theirs, str(tmp_path / "theirs.faiss"))
    assert (tmp_path / "ours.faiss").read_bytes() == (tmp_path / "theirs.faiss").read_bytes()


def test_vectors_are_searched_and_read_from_the_file(tmp_path: Path) -> None:
    file = written(tmp_path / "v.faiss")
    np.testing.assert_array_equal(file.array(), VECTORS)
    assert [len(block) for block in file.blocks(16)] == [16, 16, 8]
    _, rows = file.open().search(VECTORS[:3] * 100, 1)
    expected = (VECTORS[:3] @ VECTORS.T).argmax(1)
    np.testing.assert_array_equal(rows[:, 0], expected)


def test_an_interrupted_write_goes_on_after_the_last_whole_vector(tmp_path: Path) -> None:
    path = tmp_path / "v.faiss"
    file = VectorFile(path, 40, 6)
    assert file.done == 0
    file.append(VECTORS[:25])
    with path.open("r+b") as cut:
        cut.truncate(path.stat().st_size - 7)
    again = VectorFile(path, 40, 6)
    assert again.done == 24
    again.append(VECTORS[24:])
    np.testing.assert_array_equal(again.array(), VECTORS)
    assert again.open().ntotal == 40


def test_a_file_cut_within_its_header_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "v.faiss"
    path.write_bytes(b"IxFI")
    file = VectorFile(path, 40, 6)
    file.append(VECTORS)
    assert file.open().ntotal == 40


def test_another_dimension_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "v.faiss")
    with pytest.raises(InputError, match="vectors of 3 numbers"):
        VectorFile(tmp_path / "v.faiss", 40, 6).append(VECTORS[:, :3])
    with pytest.raises(InputError, match="holds 40 vectors of 6 numbers; required: 40 of 3"):
        VectorFile(tmp_path / "v.faiss", 40, 3).open()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "v.faiss").write_bytes(b"oops, no index")
    with pytest.raises(InputError, match="is damaged"):
        VectorFile(tmp_path / "v.faiss", 40, 6).open()


def own_memory() -> int:
    """Bytes of this process that are not mapped files."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


def test_opening_maps_the_file_in_place_of_reading_it(tmp_path: Path) -> None:
    block = np.ones((20_000, 64), np.float32)
    file = VectorFile(tmp_path / "v.faiss", 10 * len(block), 64)
    for _ in range(10):
        file.append(block)
    size = file.path.stat().st_size
    before = own_memory()
    index = file.open()
    index.search(block[:1], 1)
    assert own_memory() - before < size / 4
