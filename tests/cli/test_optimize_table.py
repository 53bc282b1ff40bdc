"""``evoprompt optimize TABLE --prompt FILE``: what a prompt engineer has, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from command_line import evoprompt, stderr_of

from evoprompt.agents import Episode
from evoprompt.experiments.questions import Questions, QuestionSettings
from evoprompt.support.errors import InputError
from evoprompt.testing.openai_server import OpenAIServer, chat_fields
from evoprompt.types import Candidate

ADVICE = "Add carefully."
PROMPT = 'Add {first} to {second}. Answer as {"sum": ...}, never as {{sum}}.'


def write_prompt(folder: Path, text: str = PROMPT) -> Path:
    file = folder / "prompt.txt"
    file.write_text(text, "utf-8")
    return file


def write_csv(folder: Path, delimiter: str = ",", encoding: str = "utf-8", rows: int = 40) -> Path:
    lines = [["first", "second", "total", "note"]]
    lines += [[str(n), "1", str(n + 1), '"a, b;\nc"'] for n in range(rows)]
    file = folder / "sums.csv"
    file.write_bytes("\r\n".join(map(delimiter.join, lines)).encode(encoding))
    return file


def questions(folder: Path, data: Path, prompt: str = PROMPT, **given: Any) -> Questions:
    settings = {"data": data, "prompt": write_prompt(folder, prompt), "answer": "total", **given}
    return Questions(QuestionSettings.model_validate(settings))


@pytest.mark.parametrize(
    ("delimiter", "encoding"), [(",", "utf-8"), (";", "utf-8-sig"), ("\t", "utf-8")]
)
def test_a_csv_fills_the_placeholders_of_the_prompt(
    tmp_path: Path, delimiter: str, encoding: str
) -> None:
    task = questions(tmp_path, write_csv(tmp_path, delimiter, encoding))
    question = task.questions("train")[0]
    assert len(task.questions("train")) == 20
    number = int(question.answers[0]) - 1
    assert question.text == f"first: {number}\nsecond: 1"
    shown = [{"role": "user", "content": question.text}]
    (message,) = list(task.render(shown, Candidate.of(PROMPT)))
    filled = PROMPT.replace("{first}", str(number)).replace("{second}", "1")
    assert message == {"role": "user", "content": filled}
    assert list(task.required) == ["{first}", "{second}"]


def test_a_parquet_file_may_hold_dates_and_decimals(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    columns = {"first": [1, 2], "second": [date(2026, 1, 2)] * 2, "total": [Decimal("1.50")] * 2}
    parquet.write_table(pyarrow.table(columns), tmp_path / "sums.parquet")
    task = questions(tmp_path, tmp_path / "sums.parquet")
    (question,) = task.questions("train")
    assert question.answers == ("1.50",)
    assert "second: 2026-01-02" in question.text


@pytest.mark.parametrize(
    ("name", "content", "prompt", "words"),
    [
        ("a.csv", "", PROMPT, "has no rows"),
        ("a.csv", "first,second,total\r\n", PROMPT, "has no rows"),
        ("a.csv", "first,first,total\n1,2,3", PROMPT, "a different name for each"),
        ("a.csv", "first,second,total\n1,2,3\n1,2", PROMPT, "a.csv:3 has 2 fields"),
        ("a.csv", "first,second,total\n1,2,", PROMPT, "a.csv:2 has no answer"),
        ("a.csv", "first,second\n1,2", PROMPT, "a.csv:2 has no column 'total'"),
        ("a.csv", "first,second,total\n1,2,3", "Add {frist}.", "the placeholder {frist}"),
        ("a.csv", "a,total\n1,3", "Add.", "a.csv:2 is no question"),
        ("a.jsonl", '{"first": 1, "second": 2, "total": 3}\n{"first": 1}', PROMPT, "a.jsonl:2 has"),
        ("a.jsonl", "[1]", PROMPT, "a.jsonl:1 is no question (it is a list)"),
        ("a.parquet", "no", PROMPT, "required: a Parquet file"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path,
    name: str,
    content: str,
    prompt: str,
    words: str,
) -> None:
    data = tmp_path / name
    data.write_text(content, "utf-8")
    given = ["optimize", data, "--prompt", write_prompt(tmp_path, prompt), "--answer", "total"]
    (line,) = stderr_of(*given, "--model", "openai:m", "--output", tmp_path / "run").splitlines()
    assert words in line


def test_the_mean_of_several_metrics_counts_and_each_is_reported(tmp_path: Path) -> None:
    task = questions(tmp_path, write_csv(tmp_path), metric=["exact", "number"])
    question = task.questions("train")[0]
    episode = Episode([], answer=f"It is {question.answers[0]}", end="answered")
    score = task.score(episode, question)
    assert (score.reward, score.metrics) == (0.5, {"solved": 0.5, "exact": 0.0, "number": 1.0})


def test_a_metric_of_ones_own_gets_the_row_and_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "judges.py").write_text(
        "def close(row, output):\n"
        "    return (0.5, 'off by one') if int(output) == int(row['total']) + 1 else 1.0\n"
        "def text(row, output):\n    return 'good'\n"
    )
    task = questions(tmp_path, write_csv(tmp_path), metric="judges:close")
    question = task.questions("train")[0]
    off = Episode([], answer=str(int(question.answers[0]) + 1), end="answered")
    score = task.score(off, question)
    assert (score.reward, score.feedback) == (0.5, "off by one")
    with pytest.raises(InputError, match="the metric returned 'good'"):
        questions(tmp_path, write_csv(tmp_path), metric="judges:text").score(off, question)
    with pytest.raises(InputError, match="required: module:function"):
        questions(tmp_path, write_csv(tmp_path), metric="judges:missing")


@pytest.mark.parametrize("metric", ["exactly", [], ["exact", "exact"], "judges:"])
def test_a_metric_that_is_unknown_is_refused(tmp_path: Path, metric: Any) -> None:
    with pytest.raises(ValueError, match="metric is"):
        questions(tmp_path, write_csv(tmp_path), metric=metric)


def test_options_of_a_table_are_refused_without_one() -> None:
    error = stderr_of("optimize", "fake", "--answer", "x", "--model", "openai:m")
    assert "--answer x is given with fake" in error


@pytest.mark.endpoint
@pytest.mark.lm
def test_the_model_gets_the_filled_prompt_alone_and_the_writer_the_placeholders(
    tmp_path: Path,
) -> None:
    better = f"{PROMPT} {ADVICE}"

    def answer(body: Mapping[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        if not text.startswith("Add "):
            return chat_fields(analysis="It hurries.", candidates=[better])
        number = int(text.split()[1])
        return str(number + 1 if ADVICE in text or number % 2 else "no idea")

    given = ["optimize", write_csv(tmp_path), "--prompt", write_prompt(tmp_path)]
    given += ["--answer", "total", "--metric", "exact", "--metric", "number", "--budget", "100"]
    with OpenAIServer([], answer) as server:
        address = ["--model", "mine", "--base-url", server.url]
        assert evoprompt(*given, *address, "--output", tmp_path / "run") == 0
        asked = [request for request in server.requests if request.prompt.startswith("Add ")]
        written = [request.prompt for request in server.requests if request not in asked]
    assert {len(request.body["messages"]) for request in asked} == {1}
    assert {'Answer as {"sum": ...}, never as {{sum}}.' in request.prompt for request in asked} == {
        True
    }
    (first, *_) = (prompt for prompt in written if "Reply with the single word" not in prompt)
    assert "{first}\n{second}" in first
    result = json.loads((tmp_path / "run/trials/optimized/seed-0/result.json").read_text())
    assert better in json.dumps(result, ensure_ascii=False).replace('\\"', '"')
