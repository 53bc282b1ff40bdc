from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from evoprompt_retrieval.commands import app
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import DenseSettings
from evoprompt_retrieval.plan import plan_index
from typer.testing import CliRunner


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
