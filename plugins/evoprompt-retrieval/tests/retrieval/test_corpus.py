"""Passages on disk: what is read, what is left out and named, what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from evoprompt_retrieval.corpus import Corpus, fingerprint
from evoprompt_retrieval.passages import Passage, parse_line

from evoprompt.support.errors import InputError

RECORDS: list[dict[str, object]] = [
    {"id": "a", "title": "Ulm", "text": "A city."},
    {"id": "b", "title": "", "text": "Without a title; ünïcödé 🎭."},
    {"id": "c", "title": "Danube", "text": "A river."},
]
TOGETHER: list[dict[str, object]] = [
    {"id": "a", "contents": '"Ulm"\nA city.'},
    {"id": "b", "contents": "Without a title; ünïcödé 🎭."},
    {"id": "c", "contents": '"Danube"\nA river.'},
]


def lines(records: list[dict[str, object]]) -> bytes:
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records).encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three passages, one record a line."""
    (tmp_path / "c.jsonl").write_bytes(lines(RECORDS))
    return tmp_path / "c.jsonl"


def test_every_format_gives_the_same_passages(path: Path) -> None:
    together, packed = path.with_name("together.jsonl"), path.with_name("packed.jsonl.gz")
    together.write_bytes(lines(TOGETHER))
    packed.write_bytes(gzip.compress(lines(TOGETHER)))
    for source in (path, together, packed):
        for _ in range(2):  # built, then opened
            corpus = Corpus.open(source, path.with_name(f"{source.name}-index"))
            assert [corpus[row] for row in (2, 0)] == [
                Passage("c", "Danube", "A river."),
                Passage("a", "Ulm", "A city."),
            ]
            blocks = [[passage.id for passage in block] for block in corpus.blocks(2)]
            assert blocks == [["a", "b"], ["c"]]


@pytest.mark.parametrize("packed", [False, True])
def test_bad_lines_are_named_and_the_rest_is_kept(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("corpus.jsonl.gz" if packed else "corpus.jsonl")
    content = (
        b'{"id": "1", "contents": "one"}\n'
        b"garbage\n"
        b"\n"
        b'{"id": "2", "text": "\xff"}\n'
        b'{"id": "1", "contents": "one again"}\n'
        b'{"id": "3", "contents": "the last line has no newline"}'
    )
    path.write_bytes(gzip.compress(content) if packed else content)
    told: list[str] = []
    corpus = Corpus.open(path, tmp_path / "index", told.append)
    assert [corpus[row].id for row in range(len(corpus))] == ["1", "3"]
    assert [message.removeprefix(f"{path}:")[:1] for message in told] == ["2", "4", "5"]
    assert "repeats the 'id'" in told[2]
    assert (tmp_path / "index" / "skipped.txt").read_text().splitlines() == told


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b'"text"', "required: an object"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"id": true, "contents": "x"}', "no 'id'"),
        (b'{"id": "1", "contents": "  "}', "no text"),
        (b'{"id": "1", "title": "t", "text": 5}', "no text"),
    ],
)
def test_what_is_no_passage_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_line(line)


@pytest.mark.parametrize("contents", ["Unquoted\nline", '""\ntext', '"a "b" c"\nx\ny', '"only"'])
def test_contents_come_back_unchanged(contents: str) -> None:
    assert parse_line(json.dumps({"id": 1, "contents": contents}).encode()).contents == contents


def test_numbers_are_ids_and_odd_characters_in_titles_texts_and_files_are_read() -> None:
    assert parse_line(b'{"id": 3, "title": "A\\nB", "text": "x"}') == Passage("3", "A B", "x")
    assert parse_line(b'{"_id": "d", "title": 1984, "text": "x"}') == Passage("d", "1984", "x")
    assert parse_line(b'{"id": null, "_id": 7, "contents": null, "text": "x"}').id == "7"
    assert (
        parse_line(b'{"id": 1, "text": "a \\ud83c \\ud83d\\ude00"}').text == "a \ufffd \U0001f600"
    )
    marked = b'\xef\xbb\xbf{"id": "0", "contents": "text"}\r\n'
    assert parse_line(marked) == Passage("0", "", "text")


def test_the_index_of_another_corpus_is_refused(path: Path) -> None:
    Corpus.open(path, path.parent / "index")
    other = path.with_name("other.jsonl")
    other.write_bytes(lines(RECORDS[:2]))
    with pytest.raises(InputError, match=r"index of another corpus \(c\.jsonl, 3 passages\)"):
        Corpus.open(other, path.parent / "index")


@pytest.mark.parametrize("damage", ["manifest", "missing", "empty", "fewer"])
def test_a_damaged_index_is_named(path: Path, damage: str) -> None:
    index = path.parent / "index"
    Corpus.open(path, index)
    spans = index / "passages.npy"
    if damage == "manifest":
        (index / "corpus.json").write_text("{")
    elif damage == "missing":
        spans.unlink()
    elif damage == "empty":
        spans.write_bytes(b"")
    else:
        np.save(spans, np.load(spans)[:1])
    with pytest.raises(InputError, match=r"is damaged .*; delete .* to build it anew"):
        Corpus.open(path, index)


# Without the time, which would give the test another name in each process.
CUT = gzip.compress(b'{"id": "1", "text": "x"}\n' * 999, mtime=0)[:60]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.jsonl", b"", "is empty"),
        ("bad.jsonl", b"oops\n", r"bad\.jsonl:1: is not JSON"),
        ("cut.jsonl.gz", CUT, "cannot be unpacked"),
        ("none.jsonl", None, "cannot be read"),
    ],
)
def test_a_file_without_passages_is_an_error(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        Corpus.open(path, tmp_path / "index")
    assert not (tmp_path / "index" / "corpus.json").exists()


@pytest.mark.parametrize("size", [3 << 20, 1 << 30])
def test_the_fingerprint_sees_the_end_of_small_and_of_large_files(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(size)  # sparse: takes no space
    first = fingerprint(path)
    with path.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    assert fingerprint(path) != first
