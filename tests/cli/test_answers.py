"""``evoprompt eval --output``: every answer is kept, and what was stopped goes on."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import evoprompt, stderr_of, stdout_of

from evoprompt.agents import Agent, AnswerProtocol
from evoprompt.agents.tasks import Method
from evoprompt.experiments.answer_table import table_of
from evoprompt.experiments.answers import EvaluationFolder, QuestionKind
from evoprompt.experiments.intervals import student_quantile
from evoprompt.log.evaluation import REWARD
from evoprompt.testing.openai_server import OpenAIServer, Status, Step, Text
from evoprompt.types import Question

pytestmark = pytest.mark.endpoint

YAML = "task: fake\nhost: fake\nengine: {proposer: fake}\nbudget: 80\nevaluate_every: 40\n"


@pytest.fixture(autouse=True)
def task(fake_task: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The fake task, compared by its reward and with a second method."""
    del fake_task
    (tmp_path / "task.yaml").write_text(YAML)
    monkeypatch.setattr("evoprompt_fake.FakeTask.main_metric", REWARD)

    methods = {"other": Method("Other", "Say it.", _begin)}
    monkeypatch.setattr("evoprompt_fake.FakeTask.methods", methods)


def _begin(tokenizer: Any, limits: Any, question: Question, instruction: str) -> Any:
    messages = [{"role": "user", "content": f"{instruction} {question.text}"}]
    prompt = tokenizer.apply_chat_template(
        messages, None, add_generation_prompt=True, tokenize=False
    )
    ids = tokenizer.encode(prompt, add_special_tokens=False)
    return Agent(AnswerProtocol(), tokenizer, limits).play(ids)


def asking(folder: Path, url: str, *more: str) -> tuple[object, ...]:
    served = ("--model", "openai:m", "--base-url", url)
    return "eval", folder / "task.yaml", "--output", folder / "out", *served, *more


def right(body: Mapping[str, Any]) -> str:
    number = int(body["messages"][-1]["content"].rpartition("P")[2].removesuffix("?"))
    return f"P{number + 1}"


def test_a_server_that_fails_for_some_is_asked_again_for_those(tmp_path: Path) -> None:
    def answer(body: Mapping[str, Any]) -> Step:
        said = right(body)
        return Status(400) if said.endswith("7") else Text(said)

    with OpenAIServer(default=answer) as server:
        told = stdout_of(*asking(tmp_path, server.url, "--limit", "30"), code=1)
    assert "| Agent | - (3 unscored) | - (3 unscored) |" in told
    assert "requests to the policy are chat messages, not the token stream" in told
    with OpenAIServer(default="wrong") as server:
        assert "| Agent | 90.0 [" in stdout_of(*asking(tmp_path, server.url, "--limit", "30"))
        assert len([one for one in server.requests if one.body]) == 3
    table = json.loads((tmp_path / "out" / "table.json").read_text())
    assert table["rows"]["Agent"][0]["scored"] == 30


def test_further_methods_and_questions_are_taken_and_nothing_is_asked_twice(
    tmp_path: Path,
) -> None:
    with OpenAIServer(default=lambda body: Text(right(body))) as server:
        assert evoprompt(*asking(tmp_path, server.url, "--limit", "5")) == 0
        assert evoprompt(*asking(tmp_path, server.url, "--limit", "8", "--methods", "all")) == 0
        assert len([one for one in server.requests if one.body]) == 16
        instructions = {
            one.body["messages"][0]["content"][:7] for one in server.requests if one.body
        }
        assert "Say it." in instructions
    lines = (tmp_path / "out" / "answers.jsonl").read_text().splitlines()
    assert len(lines) == 16
    table = json.loads((tmp_path / "out" / "table.json").read_text())
    assert list(table["rows"]) == ["Agent", "Other"]
    with OpenAIServer(default="</script><b>oh</b>") as server:
        assert (
            evoprompt(
                *asking(tmp_path, server.url, "--limit", "9", "--output", str(tmp_path / "odd"))
            )
            == 0
        )
    page = (tmp_path / "odd" / "trajectories.html").read_text()
    assert "<b>oh" not in page, "no answer ends the script of the page"
    assert r"\u003cb>oh" in page


def test_a_server_that_refuses_everything_stops_it(tmp_path: Path) -> None:
    with OpenAIServer(default=Status(401)) as server:
        asked = asking(tmp_path, server.url, "--methods", "all", "--limit", "30")
        told = stdout_of(*asked, code=1)
        assert len([one for one in server.requests if one.body]) == 30
    assert "30 of the last 30 questions could not be answered" in told


def test_it_is_continued_only_as_it_was_begun(tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("Answer in <answer> and </answer> at once.")
    with OpenAIServer(default="wrong") as server:
        asked = asking(tmp_path, server.url, "--limit", "2")
        assert evoprompt(*asked) == 0
        error = stderr_of(*asked, "--instruction", other)
        assert "was begun with the instruction of agent" in error
        assert "was begun with the split 'test'" in stderr_of(*asked, "--split", "validation")
        (tmp_path / "out" / "evaluation.json").unlink()
        assert "which holds something else" in stderr_of(*asked)


def test_a_torn_last_line_is_asked_again_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "out" / "answers.jsonl"
    with OpenAIServer(default=lambda body: Text(right(body))) as server:
        asked = asking(tmp_path, server.url, "--limit", "4")
        assert evoprompt(*asked) == 0
        whole = file.read_bytes()
        file.write_bytes(whole[:-10])
        assert evoprompt(*asked) == 0
        assert len([one for one in server.requests if one.body]) == 5
        assert file.read_bytes() == whole
        file.write_bytes(b"{}\n" + whole)
        assert "answers.jsonl:1 is no answer" in stderr_of(*asked)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--methods", "othr"), "did you mean 'other'"),
        (("--methods", ","), "--methods names"),
        (("--kinds", "tset"), "did you mean 'test'"),
        ((), "the host 'fake' keeps no answers"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    arguments: Sequence[str], said: str, tmp_path: Path
) -> None:
    source, output = str(tmp_path / "task.yaml"), str(tmp_path / "out")
    assert said in stderr_of("eval", source, "--output", output, *arguments)


def evaluation_of(folder: Path, kinds: Mapping[str, Sequence[float]]) -> Any:
    """The table of an evaluation whose questions of each kind got these values."""
    folder.mkdir()
    (folder / "evaluation.json").write_text("{}")
    asked, lines = [], []
    for kind, values in kinds.items():
        questions = [Question(f"{kind}{n}", "?", ("x",)) for n in range(len(values))]
        asked.append(QuestionKind(kind, questions))
        lines += [
            {"method": "m", "id": one.id, "question": "?", "expected": ["x"], "turns": []}
            | {"value": value, "metrics": {"tool_calls": 1.0}}
            for one, value in zip(questions, values, strict=True)
        ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "answers.jsonl").write_text(text)
    method = {"m": Method("M", "", _begin)}
    return table_of(EvaluationFolder(folder, {}), method, asked, "exact match").rows["M"]


def test_every_kind_counts_the_same_and_an_interval_stays_within_the_values(tmp_path: Path) -> None:
    rng = random.Random(1)
    values = [float(rng.random() < 0.4) for _ in range(2000)]
    cells = evaluation_of(tmp_path / "kinds", {"a": [1.0] * 10, "b": [0.0] * 990})
    assert [cell.value for cell in cells] == [1.0, 0.0, 0.5], "every kind counts the same"
    assert [(cell.low, cell.high) for cell in cells] == [(1.0, 1.0), (0.0, 0.0), (0.5, 0.5)]
    few, _ = evaluation_of(tmp_path / "few", {"a": [1.0] * 9 + [0.0]})
    assert few.high == 1.0
    cell, average = evaluation_of(tmp_path / "e", {"a": values})
    mean = sum(values) / len(values)
    half = student_quantile(1999) * math.sqrt(mean * (1 - mean) / 1999)
    assert cell == average
    assert cell.value == pytest.approx(mean)
    assert (cell.low, cell.high) == pytest.approx((mean - half, mean + half))
    few, _ = evaluation_of(tmp_path / "five", {"a": [0.2, 0.3, 0.5, 0.6, 0.9]})
    assert (few.low, few.high) == pytest.approx((0.2, 0.8401), abs=1e-4), "Student's, five answers"
    single, _ = evaluation_of(tmp_path / "single", {"a": [1.0]})
    assert (single.value, single.low, single.high) == (1.0, None, None)
