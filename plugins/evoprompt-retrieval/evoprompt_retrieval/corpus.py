"""The passages on disk, read one at a time through a memory map.

A plain JSON-lines file stays where it is; its index holds the place of every good line. Compressed
and columnar files cannot be read out of order and are copied once into such a file. Bad lines are
left out, named and counted.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import mmap
import zlib
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from evoprompt.errors import InputError
from evoprompt_retrieval.manifest import CorpusManifest
from evoprompt_retrieval.passages import Passage, parse_line, parse_record
from evoprompt_retrieval.room import building, new_array

OnSkip = Callable[[str], None]
"""Is told of every record that was left out, as ``file:line: reason``."""

COPIED = (".gz", ".parquet")
"""Files that cannot be memory-mapped line by line, and are copied into the index."""

_SPANS, _COPY, _SKIPPED = "passages.npy", "passages.jsonl", "skipped.txt"
_SAMPLED_BLOCKS, _BLOCK = 64, 1 << 20
_SKIPS_KEPT = 1000
_PARQUET_ROWS = 4096


class Corpus:
    """Passages by row number, in ``[0, len(corpus))``.

    Args:
        path: a JSON-lines file.
        spans: where its good lines begin and end, in bytes, ``(passages, 2)``.
        manifest: what is known of the corpus.
    """

    def __init__(self, path: Path, spans: np.ndarray, manifest: CorpusManifest) -> None:
        with path.open("rb") as file:
            self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._spans = spans
        self.manifest = manifest

    @classmethod
    def open(cls, source: Path, directory: Path, on_skip: OnSkip | None = None) -> Corpus:
        """The corpus in ``source``, indexed into ``directory`` first if that has no index.

        Raises:
            InputError: the file cannot be read or holds no passage at all, or ``directory`` is no
                folder or holds the index of another corpus or a damaged one.
            UnwritableError: there is no room for the index.
        """
        if not source.is_file():
            raise InputError(f"{source} is no file; required: a corpus; check --corpus")
        try:
            identity = fingerprint(source)
        except OSError as error:
            raise InputError(
                f"{source} cannot be read ({error.strerror}); required: a corpus; check --corpus"
            ) from error
        manifest = CorpusManifest.load(directory)
        if manifest is None:
            with building(directory):
                manifest = _index(source, directory, identity, on_skip)
        elif manifest.fingerprint != identity:
            raise InputError(
                f"{directory} holds the index of another corpus ({manifest.source}, "
                f"{manifest.passages:,} passages), not of {source}; give that corpus, name "
                "another directory with --index, or delete this one if the file has changed"
            )
        lines = directory / _COPY if manifest.copied else source
        try:
            spans = np.load(directory / _SPANS, mmap_mode="r")
            if spans.shape != (manifest.passages, 2):
                raise ValueError(f"{_SPANS} has the shape {spans.shape}")
            return cls(lines, spans, manifest)
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
        """All passages from row ``start`` on, ``size`` at a time."""
        for first in range(start, len(self), size):
            yield [self[row] for row in range(first, min(first + size, len(self)))]


def fingerprint(path: Path) -> str:
    """A digest of a file: of all of it up to 64 MiB, else of its size and 64 blocks of 1 MiB.

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


def _index(source: Path, directory: Path, identity: str, on_skip: OnSkip | None) -> CorpusManifest:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{directory} cannot be made ({error.strerror}); required: a folder for the index; "
            "check --index"
        ) from error
    copied = source.suffix in COPIED
    if not copied:
        found = _Index(_jsonl(source), source, on_skip)
    else:
        records = _parquet(source) if source.suffix == ".parquet" else _gzip(source)
        partial = directory / f"{_COPY}.partial"
        try:
            with partial.open("wb") as file:
                found = _Index(records, source, on_skip, file.write)
            partial.replace(directory / _COPY)
        finally:
            partial.unlink(missing_ok=True)
    if not found.spans:
        reason = found.skips[0] if found.skips else f"{source} is empty"
        raise InputError(
            f"{reason}; required: at least one passage; give "
            '{"id", "contents"} or {"id", "title", "text"} records'
        )
    spans = found.unique_spans()
    kept = new_array(directory / _SPANS, np.uint64, spans.shape)
    kept[:] = spans
    kept.flush()
    (directory / _SKIPPED).write_text("".join(f"{line}\n" for line in found.skips))
    manifest = CorpusManifest(
        fingerprint=identity,
        source=source.name,
        passages=len(spans),
        skipped=found.skipped,
        copied=copied,
    )
    manifest.save(directory)
    return manifest


class _Index:
    """Where the good records of a file are.

    Args:
        records: start and line of every record, or the reason why it is no passage.
        source: named in messages.
        on_skip: is told of bad records.
        write: appends a line to the copy; without it, spans are those of the source.
    """

    def __init__(
        self,
        records: Iterator[tuple[int, bytes | str]],
        source: Path,
        on_skip: OnSkip | None,
        write: Callable[[bytes], object] | None = None,
    ) -> None:
        self.spans, self.skips, self.skipped = array("Q"), list[str](), 0
        self._numbers, self._hashes = array("Q"), array("Q")
        self._source, self._on_skip = source, on_skip
        end = 0
        for number, (start, line) in enumerate(records, start=1):
            try:
                if isinstance(line, str):
                    raise ValueError(line)
                if not line.strip():
                    continue
                passage = parse_line(line)
            except ValueError as error:
                self._skip(number, str(error))
                continue
            if write:
                start, line = end, line.rstrip() + b"\n"
                write(line)
                end += len(line)
            self.spans.extend((start, start + len(line)))
            self._numbers.append(number)
            identity = hashlib.blake2b(passage.id.encode(), digest_size=8).digest()
            self._hashes.append(int.from_bytes(identity))

    def unique_spans(self) -> np.ndarray:
        """The spans ``(passages, 2)`` without records whose id came before."""
        hashes = np.frombuffer(self._hashes, np.uint64)
        first = np.unique(hashes, return_index=True)[1]
        again = np.ones(len(hashes), bool)
        again[first] = False
        for row in np.flatnonzero(again):
            self._skip(self._numbers[row], "repeats the 'id' of an earlier line")
        return np.frombuffer(self.spans, np.uint64).reshape(-1, 2)[~again]

    def _skip(self, number: int, reason: str) -> None:
        message = f"{self._source}:{number}: {reason}"
        self.skipped += 1
        if len(self.skips) < _SKIPS_KEPT:
            self.skips.append(message)
        if self._on_skip:
            self._on_skip(message)


def _jsonl(source: Path) -> Iterator[tuple[int, bytes]]:
    start = 0
    with source.open("rb") as file:
        for line in file:
            yield start, line
            start += len(line)


def _gzip(source: Path) -> Iterator[tuple[int, bytes]]:
    lines = 0
    try:
        with gzip.open(source, "rb") as file:
            for line in file:
                lines += 1
                yield 0, line
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(
            f"{source} cannot be unpacked after line {lines:,} ({error}); required: a whole gzip "
            "file; download it again"
        ) from error


def _parquet(source: Path) -> Iterator[tuple[int, bytes | str]]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(source) as file:
            for batch in file.iter_batches(_PARQUET_ROWS):
                for record in batch.to_pylist():
                    try:
                        yield 0, _to_line(parse_record(record))
                    except ValueError as error:
                        yield 0, str(error)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{source} cannot be read ({error}); required: a parquet file; download it again"
        ) from error


def _to_line(passage: Passage) -> bytes:
    record = {"id": passage.id, "title": passage.title, "text": passage.text}
    return json.dumps(record, ensure_ascii=False).encode()
