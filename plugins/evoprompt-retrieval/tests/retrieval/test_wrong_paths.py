"""Every command refuses every wrong path in one line and with exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wrong_paths import Option, leaves, path_parameters, require_refusals

CORPUS, INDEX = ("--corpus", "{}/corpus.jsonl"), ("--index", "{}/index")
PATHS: dict[str, dict[str, Option]] = {
    "retriever build": {
        "corpus": Option("file", INDEX),
        "index": Option("output", CORPUS),
    },
    "retriever query": {
        "corpus": Option("file", (*INDEX, "text")),
        "index": Option("output", (*CORPUS, "text")),
    },
    "retriever serve": {
        "corpus": Option("file", (*INDEX, "--port", "0")),
        "index": Option("output", (*CORPUS, "--port", "0")),
    },
}


def test_every_command_and_every_path_that_it_takes_has_a_row() -> None:
    found = {
        typed: path_parameters(command)
        for typed, command in leaves().items()
        if typed.startswith("retriever ")
    }
    assert found == {typed: set(options) for typed, options in PATHS.items()}


@pytest.mark.parametrize(
    ("typed", "name"), [(typed, name) for typed, options in PATHS.items() for name in options]
)
def test_a_wrong_path_is_refused_in_one_line(
    typed: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "0", "contents": "Spire\nThe spire is tall."}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    require_refusals(capsys, typed, name, PATHS[typed][name], tmp_path)
