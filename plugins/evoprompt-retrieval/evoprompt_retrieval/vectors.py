"""Vectors of all passages in one file, which is also a flat FAISS index.

FAISS can search and memory-map it as it is, and an inverted file takes its exact vectors from it,
so that no vector is stored twice and none has to fit in memory.
"""

from __future__ import annotations

import struct
from pathlib import Path

import faiss
import numpy as np

from evoprompt.support.errors import InputError

_FLOAT = 4
_ROWS_AT = 8
"""Offset of the number of vectors in FAISS's header of a flat index; that of floats ends it."""


class VectorFile:
    """File of unit vectors by row, appended one block at a time.

    Args:
        path: of the file; made or continued by :meth:`append`.
        rows: number of vectors of the complete file.
        dimension: numbers per vector.
    """

    def __init__(self, path: Path, rows: int, dimension: int) -> None:
        self.path = path
        self.rows, self.dimension = rows, dimension
        header = bytearray(faiss.serialize_index(faiss.IndexFlatIP(dimension)).tobytes())
        struct.pack_into("<q", header, _ROWS_AT, rows)
        struct.pack_into("<Q", header, len(header) - 8, rows * dimension)
        self._header = bytes(header)

    @property
    def done(self) -> int:
        """Return the number of whole vectors in the file."""
        if not self.path.exists():
            return 0
        size = self.path.stat().st_size - len(self._header)
        return max(size, 0) // (self.dimension * _FLOAT)

    def append(self, vectors: np.ndarray) -> None:
        """Write further vectors ``(B, D)`` after the existing whole ones."""
        done = self.done
        with self.path.open("r+b" if done else "wb") as file:
            file.write(self._header)
            file.seek(len(self._header) + done * self.dimension * _FLOAT)
            file.truncate()
            file.write(np.ascontiguousarray(vectors, "<f4").tobytes())

    def link_index(self, source: Path) -> None:
        """Make the file a link to an existing flat FAISS index.

        Raises:
            InputError: ``source`` is no such index, or has another number or size of vectors; or
                the file has vectors already.
        """
        size = len(self._header) + self.rows * self.dimension * _FLOAT
        with source.open("rb") as file:
            header, num_bytes = file.read(len(self._header)), source.stat().st_size
        if header != self._header or num_bytes != size:
            raise InputError(
                f"--vectors is {source}, of {num_bytes:,} bytes; required: a flat FAISS index of "
                f"inner products (IndexFlatIP) of {self.rows:,} vectors of {self.dimension} "
                f"numbers, which has {size:,}, whole and in one file; join its parts, or check "
                "corpus and encoder"
            )
        if self.path.exists() and not self.path.samefile(source):
            raise InputError(
                f"--vectors is {source}, but {self.path} has vectors already; required: an index "
                "without any; drop --vectors, or name another --index"
            )
        self.path.unlink(missing_ok=True)
        self.path.symlink_to(source.absolute())

    def array(self) -> np.ndarray:
        """Return all vectors ``(rows, D)``, memory-mapped."""
        shape = (self.rows, self.dimension)
        return np.memmap(self.path, "<f4", "r", offset=len(self._header), shape=shape)


def read_mapped(path: Path, rows: int, dimension: int) -> faiss.Index:
    """Return the FAISS index at ``path``, memory-mapped.

    Raises:
        InputError: it is damaged or holds other vectors.
    """
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise InputError(f"{path} is damaged ({error}); delete it to build it anew") from error
    if (index.ntotal, index.d) != (rows, dimension):
        raise InputError(
            f"{path} holds {index.ntotal:,} vectors of {index.d} numbers; required: {rows:,} of "
            f"{dimension}; delete it to build it anew"
        )
    return index
