from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from evoprompt_retrieval.corpus import Corpus, fingerprint

from evoprompt.errors import InputError

RECORDS: list[dict[str, object]] = [
    {"id": "a", "title": "Ulm", "text": "A city."},
    {"id": "b", "title": "", "text": "Without a title; ünïcödé 🎭."},
    {"id": "c", "title": "Danube", "text": "A river."},
]


def write_jsonl(path: Path, records: list[dict[str, object]]) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def write_contents(path: Path) -> Path:
    lines = (
        {"id": record["id"], "contents": f'"{record["title"]}"\n{record["text"]}'}
        if record["title"]
        else {"id": record["id"], "contents": record["text"]}
        for record in RECORDS
    )
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
    return path


def write_gzip(path: Path) -> Path:
    path.write_bytes(gzip.compress(write_contents(path.with_suffix("")).read_bytes()))
    return path


def write_parquet(path: Path) -> Path:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), path)
    return path


def test_every_format_gives_the_same_passages(tmp_path: Path) -> None:
    sources = (
        write_jsonl(tmp_path / "apart.jsonl", RECORDS),
        write_contents(tmp_path / "together.jsonl"),
        write_gzip(tmp_path / "packed.jsonl.gz"),
        write_parquet(tmp_path / "columns.parquet"),
    )
    found = []
    for source in sources:
        corpus = Corpus.open(source, tmp_path / f"{source.name}-index")
        assert len(corpus) == 3
        found.append([corpus[row] for row in (2, 0, 1)])
    assert found == [found[0]] * len(sources)
    assert [passage.id for passage in found[0]] == ["c", "a", "b"]


def test_blocks_cover_all_passages_in_order(tmp_path: Path) -> None:
    corpus = Corpus.open(write_jsonl(tmp_path / "c.jsonl", RECORDS), tmp_path / "index")
    assert [[passage.id for passage in block] for block in corpus.blocks(2)] == [["a", "b"], ["c"]]
    assert [[passage.id for passage in block] for block in corpus.blocks(2, 1)] == [["b", "c"]]


def test_bad_lines_are_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(
        b'{"id": "1", "contents": "one"}\n'
        b"garbage\n"
        b"\n"
        b'{"id": "2", "text": "\xff"}\n'
        b'{"id": "1", "contents": "one again"}\n'
        b'{"id": "3", "contents": "the last line has no newline"}'
    )
    told: list[str] = []
    corpus = Corpus.open(path, tmp_path / "index", told.append)
    assert [corpus[row].id for row in range(len(corpus))] == ["1", "3"]
    assert corpus[0].text == "one"
    assert [message.removeprefix(f"{path}:")[:1] for message in told] == ["2", "4", "5"]
    assert "repeats the 'id'" in told[2]
    assert corpus.manifest.skipped == 3
    assert (tmp_path / "index" / "skipped.txt").read_text().splitlines() == told


def test_bad_rows_of_other_formats_are_named_too(tmp_path: Path) -> None:
    columns = tmp_path / "c.parquet"
    table = pyarrow.Table.from_pylist([{"id": "1", "text": None}, {"id": "2", "text": "two"}])
    pyarrow.parquet.write_table(table, columns)
    packed = tmp_path / "c.jsonl.gz"
    packed.write_bytes(gzip.compress(b'oops\n{"id": "2", "text": "two"}\n'))
    for source in (columns, packed):
        told: list[str] = []
        corpus = Corpus.open(source, tmp_path / f"{source.name}-index", told.append)
        assert [corpus[row].text for row in range(len(corpus))] == ["two"]
        assert told[0].startswith(f"{source}:1: ")


def test_a_second_opening_reads_the_index_and_not_the_lines(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "c.jsonl", RECORDS)
    first = Corpus.open(path, tmp_path / "index")
    written = (tmp_path / "index" / "passages.npy").stat().st_mtime_ns
    told: list[str] = []
    second = Corpus.open(path, tmp_path / "index", told.append)
    assert second.manifest == first.manifest
    assert (tmp_path / "index" / "passages.npy").stat().st_mtime_ns == written


def test_the_index_of_another_corpus_is_refused(tmp_path: Path) -> None:
    Corpus.open(write_jsonl(tmp_path / "c.jsonl", RECORDS), tmp_path / "index")
    other = write_jsonl(tmp_path / "other.jsonl", RECORDS[:2])
    with pytest.raises(InputError, match=r"index of another corpus \(c\.jsonl, 3 passages\)"):
        Corpus.open(other, tmp_path / "index")


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / "corpus.json").write_text("{")
    with pytest.raises(InputError, match=r"corpus\.json is damaged"):
        Corpus.open(write_jsonl(tmp_path / "c.jsonl", RECORDS), tmp_path)


@pytest.mark.parametrize("content", [None, b"", b"oops", b"one passage only"])
def test_a_damaged_index_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = write_jsonl(tmp_path / "c.jsonl", RECORDS)
    spans = tmp_path / "index" / "passages.npy"
    Corpus.open(path, tmp_path / "index")
    if content == b"one passage only":
        np.save(spans, np.load(spans)[:1])
    elif content is None:
        spans.unlink()
    else:
        spans.write_bytes(content)
    with pytest.raises(InputError, match=r"is damaged .*; delete .* to build it anew"):
        Corpus.open(path, tmp_path / "index")


def test_an_index_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "c.jsonl", RECORDS)
    with pytest.raises(InputError, match=r"required: a folder for the index; check --index"):
        Corpus.open(path, path)
    assert len(path.read_text().splitlines()) == len(RECORDS)


# Without the time, which would give the test another name in each process.
CUT = gzip.compress(b'{"id": "1", "text": "x"}\n' * 999, mtime=0)[:60]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.jsonl", b"", "is empty"),
        ("bad.jsonl", b"oops\n", r"bad\.jsonl:1: is not JSON"),
        ("cut.jsonl.gz", CUT, "unpacked after"),
        ("no.parquet", b"PAR1 oops", "cannot be read"),
    ],
)
def test_a_file_without_passages_is_an_error(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        Corpus.open(path, tmp_path / "index")
    assert not (tmp_path / "index" / "corpus.json").exists()


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no file"):
        Corpus.open(tmp_path / "none.jsonl", tmp_path / "index")


def test_the_fingerprint_sees_every_byte_of_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = bytearray(3 * (1 << 20) + 5)
    seen = set()
    for place in (0, 1 << 20, len(content) - 1):
        content[place] ^= 1
        path.write_bytes(content)
        seen.add(fingerprint(path))
    assert len(seen) == 3


def test_the_fingerprint_of_a_large_file_reads_blocks_of_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(1 << 30)  # sparse: takes no space
    first = fingerprint(path)
    with path.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    assert fingerprint(path) != first
