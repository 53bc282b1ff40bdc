from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from evoprompt_retrieval import plan
from evoprompt_retrieval.commands import app
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import Backend, DenseSettings
from evoprompt_retrieval.plan import plan_index
from typer.testing import CliRunner

from evoprompt.experiments.requirements import GIB


def lines(count: int) -> bytes:
    return b"".join(
        json.dumps({"id": str(n), "contents": f"passage {n:06}"}).encode() + b"\n"
        for n in range(count)
    )


def test_the_number_of_passages_is_told_from_the_first_lines(tmp_path: Path) -> None:
    (tmp_path / "few.jsonl").write_bytes(lines(12))
    (tmp_path / "many.jsonl").write_bytes(lines(5000))
    for name, least, most in (("few", 12, 12), ("many", 4500, 5500)):
        found = plan_index(tmp_path / f"{name}.jsonl", tmp_path / "index", "bm25", DenseSettings())
        told = dict(found.figures)["passages"].removeprefix("about ").split()[0]
        assert least <= int(told.replace(",", "")) <= most
        assert not [need for need in found.needs if need.missing]


def test_vectors_take_as_much_as_the_encoder_makes_of_them(
    tmp_path: Path, encoder_name: str
) -> None:
    with gzip.open(tmp_path / "corpus.jsonl.gz", "wb") as file:
        file.write(lines(900))
    where = tmp_path / "corpus.jsonl.gz", tmp_path / "index"
    figures = dict(plan_index(*where, "dense", DenseSettings(encoder=encoder_name)).figures)
    assert "900" in figures["passages"]
    assert "384 numbers a passage" in figures["encoder"]


def test_the_time_to_encode_is_told_from_operations() -> None:
    wikipedia = 21_000_000 * 650
    operations = plan._encoding(wikipedia, "intfloat/e5-base-v2")
    assert operations == pytest.approx(2 * 85e6 * wikipedia / 4.3, rel=0.01)
    assert operations / plan._H100["float32"] > 2 * 3600
    assert operations / plan._H100["float16"] < 3600
    assert plan._encoding(1000, "intfloat/e5-large-v2") > 3 * plan._encoding(1000, "x-base")


def test_a_dry_command_builds_nothing_and_tells_what_is_missing(tmp_path: Path) -> None:
    index = tmp_path / "index"
    command = ["build", "--corpus", str(tmp_path / "none.jsonl"), "--index", str(index)]
    ended = CliRunner().invoke(app, [*command, "--backend", "dense", "--dry-run"])
    assert ended.exit_code == 3
    assert "missing corpus: " in ended.output
    assert "encoding: " not in ended.output  # nobody knows how much there is to encode
    (tmp_path / "none.jsonl").write_bytes(lines(3))
    ended = CliRunner().invoke(app, [*command, "--dry-run"])
    assert ended.exit_code == 0, ended.output
    assert "passages: about 3" in ended.output
    assert not index.exists()


def test_what_is_copied_takes_room_too(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_bytes(lines(900))
    with gzip.open(tmp_path / "c.jsonl.gz", "wb") as file:
        file.write(lines(900))
    rows = [{"id": str(n), "text": f"{n} " * 40} for n in range(900)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "c.parquet")
    text = len(lines(900))
    assert plan._count(tmp_path / "c.jsonl") == plan._count(tmp_path / "c.jsonl.gz") == (900, text)
    rows_found, bytes_found = plan._count(tmp_path / "c.parquet")
    assert rows_found == 900
    assert bytes_found > (tmp_path / "c.parquet").stat().st_size / 2
    mapped, copied = (plan._gib(900, text, kind, "bm25", DenseSettings()) for kind in (False, True))
    assert [more - less for more, less in zip(copied, mapped, strict=True)] == pytest.approx(
        [text / GIB] * 2
    )


@pytest.mark.parametrize(("backend", "more"), [("bm25", True), ("dense", False)])
def test_words_take_twice_the_room_while_their_index_is_built(
    tmp_path: Path, backend: Backend, more: bool
) -> None:
    index, building = plan._gib(10**6, 10**9, False, backend, DenseSettings())
    assert (building > 1.5 * index) == more
    assert building >= index


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.jsonl", b"", "is empty"),
        ("bad.jsonl.gz", b"oops", "cannot be read"),
        ("cut.jsonl.gz", gzip.compress(lines(500), mtime=0)[:-20], "cannot be read"),
        ("bad.parquet", b"oops", "cannot be read"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_missing(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    found = plan_index(tmp_path / name, tmp_path / "index", "bm25", DenseSettings())
    assert [(need.subject, said in need.text) for need in found.needs if need.missing] == [
        ("corpus", True)
    ]


def test_the_index_of_another_corpus_is_in_the_way(tmp_path: Path) -> None:
    for name, count in (("one.jsonl", 3), ("other.jsonl", 4)):
        (tmp_path / name).write_bytes(lines(count))
    index = tmp_path / "index"
    Corpus.open(tmp_path / "one.jsonl", index)
    for name, lacking in (("one.jsonl", []), ("other.jsonl", ["index"])):
        found = plan_index(tmp_path / name, index, "bm25", DenseSettings())
        assert [need.subject for need in found.needs if need.missing] == lacking
