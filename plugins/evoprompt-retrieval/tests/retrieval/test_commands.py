from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_retrieval.commands import app
from typer.testing import CliRunner

from evoprompt.errors import InputError


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_build_and_query_by_words(corpus_file: Path, tmp_path: Path) -> None:
    where = ("--corpus", corpus_file, "--index", tmp_path)
    assert "bm25 index of 10 passages" in run("build", *where)
    found = run("query", "river into the Black Sea", *where, "--topk", "1")
    assert '"Danube"\nThe Danube is a river' in found
    assert "nothing found" in run("query", "xylophone", *where)


def test_build_and_query_by_meaning(corpus_file: Path, tmp_path: Path, encoder_name: str) -> None:
    where = ("--corpus", corpus_file, "--index", tmp_path, "--encoder", encoder_name)
    kind = ("--backend", "dense", "--faiss", "IVF1,Flat")
    assert "dense index of 10 passages" in run("build", *where, *kind)
    assert "Ulm Minster" in run("query", "the highest steeple", *where, *kind, "--topk", "1")
    fused = run("query", "the highest steeple", *where, "--backend", "hybrid")
    assert "Ulm Minster" in fused


def test_lines_left_out_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "1", "contents": "kept"}\n' + "garbage\n" * 12)
    output = run("build", "--corpus", path, "--index", tmp_path / "index")
    flat = output.replace("\n", "")
    assert "left out: " in flat
    assert "corpus.jsonl:2: is not JSON" in flat
    assert "left out 12 lines in all" in flat
    assert "corpus.jsonl:13" not in flat


def test_a_dry_query_says_whether_there_is_something_to_ask(
    corpus_file: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    where = ("--corpus", corpus_file, "--index", index)
    assert "passages: about 10" in run("query", "copper", *where, "--dry-run")
    assert not index.exists()
    down = CliRunner().invoke(app, ["query", "x", "--url", "http://127.0.0.1:9", "--dry-run"])
    assert down.exit_code == 3
    assert "missing search server: " in down.output


def test_bad_input_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--url is 'me:80', which is no address"):
        run("query", "x", "--url", "me:80", "--dry-run")
    with pytest.raises(InputError, match="check --corpus"):
        run("build", "--corpus", tmp_path / "none", "--index", tmp_path)
    with pytest.raises(InputError, match="give --corpus and --index, or --url"):
        run("query", "x")
