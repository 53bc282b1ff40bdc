"""Passages on disk, read one at a time through a memory map.

A plain JSON-lines file stays in its place; its index has the position of every good line. A packed
file is unpacked once into the index. Bad lines are left out, named and counted.
"""

from __future__ import annotations

import gzip
import hashlib
import mmap
import shutil
import zlib
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from evoprompt.support.errors import InputError
from evoprompt_retrieval.disk_space import Manifest, save_array
from evoprompt_retrieval.passages import Passage, parse_line

OnSkip = Callable[[str], None]
"""Callback for every record that was left out, with ``file:line: reason``."""

MANIFEST = "corpus.json"
_SPANS, _COPY, _SKIPPED = "passages.npy", "passages.jsonl", "skipped.txt"
_SAMPLED_BLOCKS, _BLOCK = 64, 1 << 20
_SKIPS_KEPT = 1000


class Corpus:
    """Passages by row number, in ``[0, len(corpus))``.

    Args:
        path: a JSON-lines file.
        spans: begin and end of its good lines, in bytes, ``(passages, 2)``.
        manifest: of the corpus.
    """

    def __init__(self, path: Path, spans: np.ndarray, manifest: Manifest) -> None:
        with path.open("rb") as file:
            self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._spans = spans
        self.manifest = manifest

    @classmethod
    def open(cls, source: Path, directory: Path, on_skip: OnSkip | None = None) -> Corpus:
        """Return the corpus in ``source``; index it into ``directory`` first if that has no index.

        Raises:
            InputError: the file cannot be read or holds no passage at all, or ``directory`` is no
                folder or holds the index of another corpus or a damaged one.
        """
        try:
            identity = fingerprint(source)
        except OSError as error:
            raise InputError(
                f"{source} cannot be read ({error.strerror}); required: a corpus; check --corpus"
            ) from error
        manifest = Manifest.load(directory / MANIFEST)
        if manifest is None:
            manifest = _index(source, directory, identity, on_skip)
        elif manifest.fingerprint != identity:
            raise InputError(
                f"{directory} holds the index of another corpus ({manifest.source}, "
                f"{manifest.passages:,} passages), not of {source}; give that corpus, name "
                "another directory with --index, or delete this one if the file has changed"
            )
        try:
            spans = np.load(directory / _SPANS, mmap_mode="r")
            if spans.shape != (manifest.passages, 2):
                raise ValueError(f"{_SPANS} has the shape {spans.shape}")
            return cls(_lines(source, directory), spans, manifest)
        except (OSError, EOFError, ValueError) as error:
            raise InputError(
                f"the index of {source} in {directory} is damaged ({error}); delete {directory} "
                "to build it anew"
            ) from error

    def __len__(self) -> int:
        return len(self._spans)

    def __getitem__(self, row: int) -> Passage:
        start, end = self._spans[row]
        return parse_line(self._lines[int(start) : int(end)])

    def blocks(self, size: int, start: int = 0) -> Iterator[list[Passage]]:
        """Yield all passages from row ``start`` on, ``size`` at a time."""
        for first in range(start, len(self), size):
            yield [self[row] for row in range(first, min(first + size, len(self)))]


def fingerprint(path: Path) -> str:
    """Return a digest of a file: up to 64 MiB of all, else of its size and 64 blocks of 1 MiB.

    Reading a whole 14 GB corpus at every start would take minutes; a change of a few bytes within
    a larger file that keeps its size may therefore go unnoticed.
    """
    size = path.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=16)
    count = max(1, min(_SAMPLED_BLOCKS, -(-size // _BLOCK)))  # reads, to see that it can be read
    with path.open("rb") as file:
        for number in range(count):
            last = size - _BLOCK if size > _SAMPLED_BLOCKS * _BLOCK else (count - 1) * _BLOCK
            file.seek(last * number // max(count - 1, 1))
            digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def _lines(source: Path, directory: Path) -> Path:
    return directory / _COPY if source.suffix == ".gz" else source


def _index(source: Path, directory: Path, identity: str, on_skip: OnSkip | None) -> Manifest:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{directory} cannot be made ({error.strerror}); required: a folder for the index; "
            "check --index"
        ) from error
    lines = _lines(source, directory)
    if lines != source:
        _unpack(source, lines)
    spans, identifiers, skips, start = array("Q"), set[str](), list[str](), 0
    with lines.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                if line.strip():
                    identifier = parse_line(line).id
                    if identifier in identifiers:
                        raise ValueError("repeats the 'id' of an earlier line")
                    identifiers.add(identifier)
                    spans.extend((start, start + len(line)))
            except ValueError as error:
                skips.append(f"{source}:{number}: {error}")
                if on_skip:
                    on_skip(skips[-1])
            start += len(line)
    if not spans:
        raise InputError(
            f"{skips[0] if skips else f'{source} is empty'}; required: at least one passage; give "
            '{"id", "contents"} or {"id", "title", "text"} records'
        )
    save_array(directory / _SPANS, np.frombuffer(spans, np.uint64).reshape(-1, 2))
    (directory / _SKIPPED).write_text("".join(f"{line}\n" for line in skips[:_SKIPS_KEPT]))
    manifest = Manifest(fingerprint=identity, source=source.name, passages=len(spans) // 2)
    manifest.save(directory / MANIFEST)
    return manifest


def _unpack(source: Path, target: Path) -> None:
    try:
        with gzip.open(source, "rb") as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file, _BLOCK)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{source} cannot be unpacked ({error}); required: a whole gzip file; download it again"
        ) from error
