"""FAISS indexes by factory string: built once from the vector file, then memory-mapped.

What a kind needs of the exact vectors (the whole of ``Flat``, the second stage of ``RFlat``) stays
in the vector file; its own file holds the rest.
"""

from __future__ import annotations

import re
from pathlib import Path

import faiss
import numpy as np

from evoprompt.errors import InputError
from evoprompt_retrieval.index import OnProgress
from evoprompt_retrieval.vectors import VectorFile

_BLOCK = 65_536
_TRAINING_ROWS_PER_LIST = 64
_REFINE = ",RFlat"

_SEARCHED_LISTS = 3 / 8
"""What keeps 97 % of the nearest passages with 128 lists and more with finer ones, as measured."""

_REFINED_PER_RESULT = 16


def build(spec: str, vectors: VectorFile, path: Path, on_progress: OnProgress) -> None:
    """Writes the part of the index ``spec`` that is not in the vector file to ``path``.

    Raises:
        InputError: FAISS knows no such index, or it needs more passages.
        OSError: there is no room for it.
    """
    if not re.fullmatch(r"IVF\d+,[^,]+(,RFlat)?", spec):
        raise InputError(
            f"--faiss is {spec!r}; required: 'Flat', or an inverted file such as "
            "'IVF512,PQ96x4fs,RFlat'"
        )
    try:
        index = faiss.index_factory(
            vectors.dimension, spec.removesuffix(_REFINE), faiss.METRIC_INNER_PRODUCT
        )
        if not index.is_trained:
            on_progress("training the FAISS index", 0, vectors.rows)
            index.train(_training_sample(index, vectors))
        for block in vectors.blocks(_BLOCK):
            index.add(block)
            on_progress("adding to the FAISS index", index.ntotal, vectors.rows)
    except RuntimeError as error:
        raise InputError(
            f"--faiss is {spec!r}, which FAISS cannot build over {vectors.rows:,} vectors of "
            f"{vectors.dimension} numbers ({_reason(error)}); required: a factory string such as "
            "'Flat' or 'IVF4096,PQ96x4fs,RFlat', with no more lists than passages and "
            "sub-vectors that divide the dimension"
        ) from error
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:  # FAISS's own writer says nothing if closing fails
            writer = faiss.PyCallbackIOWriter(file.write)  # type: ignore[attr-defined]
            faiss.write_index(index, writer)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def open_kind(spec: str, vectors: VectorFile, path: Path) -> faiss.Index:
    """The index ``spec``, its own part read from ``path``, set to search well rather than fast.

    By default an inverted file looks into three of eight lists, and a second stage ranks 16 times
    the wanted hits.

    Raises:
        InputError: a file is damaged or belongs to other vectors.
    """
    flat = vectors.open()
    if spec == "Flat":
        return flat
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise InputError(
            f"{path} is damaged ({_reason(error)}); delete it to build it anew"
        ) from error
    if (index.ntotal, index.d) != (vectors.rows, vectors.dimension):
        raise InputError(
            f"{path} indexes {index.ntotal:,} vectors of {index.d} numbers; required: "
            f"{vectors.rows:,} of {vectors.dimension}; delete it to build it anew"
        )
    if inverted := faiss.try_extract_index_ivf(index):
        inverted.nprobe = max(8, round(inverted.nlist * _SEARCHED_LISTS))
    if spec.endswith(_REFINE):
        index = faiss.IndexRefine(index, flat)
        index.k_factor = _REFINED_PER_RESULT
    return index


def _training_sample(index: faiss.Index, vectors: VectorFile) -> np.ndarray:
    inverted = faiss.try_extract_index_ivf(index)
    lists = inverted.nlist if inverted else 0
    wanted = min(vectors.rows, max(_BLOCK, _TRAINING_ROWS_PER_LIST * lists))
    rows = np.random.default_rng(0).choice(vectors.rows, wanted, replace=False)
    return np.ascontiguousarray(vectors.array()[np.sort(rows)])


def _reason(error: RuntimeError) -> str:
    """FAISS's message without the place in its source."""
    return str(error).rsplit(": ", 1)[-1]
