"""docs/own-documents.md does what it says, before a strict server of OpenAI's names."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from command_line import evoprompt, stderr_of, stdout_of
from evoprompt_search_qa.open.task import SEED
from provider import openai

from evoprompt.experiments.config import load
from evoprompt.testing.openai_server import chat_fields

PAGE = (Path(__file__).parents[3] / "docs" / "own-documents.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]
LINES = dict(re.findall(r'```json title="(.*?)"\n(.*?)```', PAGE, re.DOTALL))
TOWNS = [f"Town{number}" for number in range(20)]
NEVER = "No idea"


def command(name: str) -> list[str]:
    (found,) = (line for line in COMMANDS if line.startswith(f"evoprompt {name} "))
    return shlex.split(found)[1:]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the lines of the page and twenty more of each file."""
    documents = [{"text": f"{town} was founded in {1000 + n}."} for n, town in enumerate(TOWNS)]
    questions = [
        {"question": f"When was {town} founded?", "answer": 1000 + n}
        for n, town in enumerate(TOWNS)
    ]
    for name, rows in (("docs.jsonl", documents), ("qa.jsonl", questions)):
        lines = [LINES[name].strip(), *map(json.dumps, rows)]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(here: Path) -> Iterator[str]:
    """The search server of the page, at a free port."""
    assert evoprompt(*command("search-qa data prepare")) == 0
    serve = [sys.executable, "-m", "evoprompt", *command("retriever serve"), "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1].removesuffix("/retrieve")
        process.terminate()


def answer(body: Mapping[str, Any]) -> str:
    """Search as the agent, and answer from the passage; without one, know nothing."""
    if body["model"] == "gpt-5-mini":
        return chat_fields(analysis="It is right.", candidates=[SEED])
    text = "\n".join(str(message["content"]) for message in body["messages"])
    years = re.findall(r"founded in (\d+)\.", text)
    if years:
        return f"<think>It is there.</think> <answer>{years[0]}</answer>"
    towns = re.findall(r"When was (\w+) founded", text)
    if towns and "write a query inside <search>" in text:
        return f"<think>Look.</think> <search>{towns[-1]} founded</search>"
    return f"<answer>{NEVER}</answer>"


@pytest.mark.endpoint
@pytest.mark.lm
def test_two_files_become_a_table_of_methods_and_a_better_instruction(
    server: str, here: Path
) -> None:
    splits = {
        split: pyarrow.parquet.read_table(here / "data/own" / f"{split}.parquet").num_rows
        for split in ("train", "validation", "test")
    }
    assert splits == {"train": 13, "validation": 4, "test": 4}
    here_only = ["--set", f"task.retriever={server}"]
    with openai(answer) as provider:
        table = stdout_of(*command("eval"), *here_only)
        assert re.search(r"\| Direct \| 0\.0", table)
        assert re.search(r"\| Agent \| (75|100)\.0", table), table  # the page's line is another
        assert evoprompt(*command("optimize"), *here_only, "--output", "runs/better") == 0
    assert {request.body["model"] for request in provider.requests} == {
        "gpt-4.1-mini",
        "gpt-5-mini",
    }


def test_it_keeps_both_answers_of_a_question_and_prints_what_is_left_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (here / "qa.jsonl").open("a", encoding="utf-8") as file:
        file.write('\n{"question": "when was Town3 founded?", "answer": ["the year 1003"]}')
        file.write('\n{"question": "And this?"}')
    with (here / "docs.jsonl").open("a", encoding="utf-8") as file:
        file.write('\n{"title": "nothing"}')
    assert evoprompt(*command("search-qa data prepare"), "--validation", "2") == 0
    said = capsys.readouterr()
    assert "left out: qa.jsonl:23: has no answer; required: 'answer'" in said.err
    assert "left out: docs.jsonl:22: has no text" in said.err
    assert "both answers count: qa.jsonl:22: repeats qa.jsonl:5" in said.err
    assert "21 passages, and questions: 4 for test, 2 for validation, 15 for train" in said.out
    rows = [
        row
        for split in ("train", "validation", "test")
        for row in pyarrow.parquet.read_table(here / "data/own" / f"{split}.parquet").to_pylist()
    ]
    (repeated,) = (row for row in rows if "Town3 " in row["question"])
    assert repeated["golden_answers"] == ["1003", "the year 1003"]
    assert load(here / "data/own/run.yaml").task["name"] == "search-qa-open"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--passages", "docs.jsonl"], "only one of --passages and --questions is given"),
        (
            ["--passages", "docs.jsonl", "--questions", "qa.jsonl", "--train", "nq"],
            "given beside --passages; required: either own documents or sets",
        ),
        (["--passages", "none.jsonl", "--questions", "qa.jsonl"], "--passages is none.jsonl"),
        (["--passages", "docs.jsonl", "--questions", "few.jsonl"], "holds 1 questions with an"),
        (["--passages", "bad.jsonl", "--questions", "qa.jsonl"], "is not JSON .* one passage"),
    ],
)
def test_files_that_cannot_be_used_are_refused_in_one_line(
    arguments: list[str], message: str, here: Path
) -> None:
    (here / "few.jsonl").write_text('{"question": "Who?", "answer": "I"}\n{}\n')
    (here / "bad.jsonl").write_text("one\n")
    prepare = ["search-qa", "data", "prepare", "--output", "data/own", *arguments]
    error = stderr_of(*prepare)
    assert re.search(message, error)
    assert error.count("\n") == 1
    assert not (here / "data").exists()
