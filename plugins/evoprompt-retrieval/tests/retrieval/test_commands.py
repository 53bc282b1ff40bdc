"""The commands: those of the README, what a dry run tells, and wrong paths."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from evoprompt_retrieval.commands import app
from typer.main import get_command
from typer.testing import CliRunner
from wrong_paths import Option, leaves, path_parameters, require_refusals

from evoprompt.plugins import plugins
from evoprompt.support.errors import InputError

ROOT = Path(__file__).parents[4]
README = (ROOT / "plugins" / "evoprompt-retrieval" / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"(?:^|&& )evoprompt retriever (.*)$", README, flags=re.MULTILINE)


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def passages(count: int) -> bytes:
    rows = ({"id": str(n), "contents": f"passage {n:06}"} for n in range(count))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_the_first_commands_of_the_readme_build_an_index_and_find_a_passage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    build, query = (line.replace("runs/passages", str(tmp_path)) for line in COMMANDS[:2])
    assert "bm25 index of 6 passages" in run(*shlex.split(build))
    assert '"Ulm Minster"\n' in run(*shlex.split(query))
    assert "nothing found" in run(*shlex.split(query)[:-1], "xylophone")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_the_readme_exists(command: str) -> None:
    name, *options = shlex.split(command)
    group: Any = get_command(app)
    group.commands[name].make_context(name, options)


def test_build_and_query_by_meaning(corpus_file: Path, tmp_path: Path, encoder_name: str) -> None:
    where = ("--corpus", corpus_file, "--index", tmp_path, "--encoder", encoder_name)
    kind = ("--backend", "dense", "--faiss", "IVF1,Flat")
    assert "dense index of 10 passages" in run("build", *where, *kind)
    assert "Ulm Minster" in run("query", "the highest steeple", *where, *kind, "--topk", "1")
    fused = run("query", "the highest steeple", *where, "--backend", "hybrid")
    assert "Ulm Minster" in fused


def test_an_encoder_that_is_not_here_is_refused_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:  # bound and never listening
        nobody.bind(("127.0.0.1", 0))
        hub = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub)
        source = tmp_path / "corpus.jsonl"
        source.write_bytes(passages(3))
        where = ("--corpus", source, "--index", tmp_path / "index", "--backend", "dense")
        with pytest.raises(InputError, match=f"{hub} cannot be reached .* --backend bm25"):
            run("build", *where, "--encoder", "nobody/nothing")


def test_lines_left_out_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "1", "contents": "kept"}\n' + "garbage\n" * 12)
    flat = run("build", "--corpus", path, "--index", tmp_path / "index").replace("\n", "")
    assert "corpus.jsonl:2: is not JSON" in flat
    assert "left out 12 lines in all" in flat
    assert "corpus.jsonl:13" not in flat


@pytest.mark.parametrize("packed", [False, True])
def test_a_dry_run_tells_size_and_needs_and_builds_nothing(
    tmp_path: Path, encoder_name: str, packed: bool
) -> None:
    index, content = tmp_path / "index", passages(5000)
    path = tmp_path / ("c.jsonl.gz" if packed else "c.jsonl")
    path.write_bytes(gzip.compress(content) if packed else content)
    where = ("--corpus", path, "--index", index, "--backend", "dense", "--encoder", encoder_name)
    told = run("build", *where, "--dry-run")
    found = re.search(r"about ([\d,]+),", told)
    assert found
    assert packed or 4500 <= int(found[1].replace(",", "")) <= 5500
    with pytest.raises(InputError, match="--vectors is given with --backend bm25"):
        run("build", *where[:4], "--vectors", path)
    assert not index.exists()
    (tmp_path / "other.jsonl").write_bytes(passages(3))
    run("build", "--corpus", tmp_path / "other.jsonl", "--index", index)
    assert "missing index: " in run("build", *where, "--dry-run", code=3)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.jsonl", None, "cannot be read"),
        ("empty.jsonl", b"", "is empty"),
        ("cut.jsonl.gz", gzip.compress(passages(500), mtime=0)[:-20], "cannot be read"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_missing(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    where = ("--corpus", tmp_path / name, "--index", tmp_path / "index")
    told = run("build", *where, "--dry-run", code=3)
    assert "missing corpus: " in told
    assert said in told


def test_a_dry_query_says_whether_somebody_answers() -> None:
    told = run("query", "x", "--url", "http://127.0.0.1:9", "--dry-run", code=3)
    assert "missing search server: " in told
    with pytest.raises(InputError, match="give --corpus and --index, or --url"):
        run("query", "x")


def test_finding_the_commands_and_searching_by_words_load_nothing_slow() -> None:
    slow = "{'bm25s', 'faiss', 'starlette', 'torch', 'transformers', 'uvicorn'}"
    dense = "{'faiss', 'sentence_transformers', 'torch'}"
    code = (
        "import sys, evoprompt_retrieval.plugin as p; p.evoprompt_commands(); "
        f"print({slow} & set(sys.modules)); "
        "import evoprompt_retrieval.bm25, evoprompt_retrieval.serving, evoprompt_retrieval.client; "
        f"print({dense} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["set()", "set()"]
    assert "retriever" in [command.info.name for command in plugins().commands()]


CORPUS, INDEX = ("--corpus", "{}/corpus.jsonl"), ("--index", "{}/index")
PATHS = {"corpus": Option("file", INDEX), "index": Option("output", CORPUS)}


@pytest.mark.parametrize("path", ["", "none.index", ".", "x" * 5000, "a\nb"])
def test_vectors_that_are_no_file_are_refused_before_anything_is_loaded(path: str) -> None:
    where = ("--corpus", "c.jsonl", "--index", "i", "--backend", "dense")
    with pytest.raises(InputError, match="cannot be read") as refused:
        run("build", *where, "--vectors", path)
    assert "\n" not in str(refused.value)


def test_every_command_refuses_every_wrong_path_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = {name: command for name, command in leaves().items() if name.startswith("retriever ")}
    found = {name: path_parameters(command) for name, command in typed.items()}
    assert found.pop("retriever build") == {*PATHS, "vectors"}
    assert found == {name: set(PATHS) for name in found}  # and all read them alike
    row = {"id": "0", "contents": "Spire\nThe spire is tall."}
    for option, given in PATHS.items():
        folder = tmp_path / option
        folder.mkdir()
        (folder / "corpus.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
        require_refusals(capsys, "retriever build", option, given, folder)
