"""``evoprompt optimize QUESTIONS.jsonl --prompt FILE``: without a task."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import evoprompt, stderr_of, stdout_of

from evoprompt.agents import Episode
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.questions import Metric, Questions, QuestionSettings
from evoprompt.experiments.testing import TaskSuite
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError
from evoprompt.testing.openai_server import OpenAIServer, chat_fields
from evoprompt.types import Question, estimate_tokens

ADVICE = "Add carefully."


def files(folder: Path, *more: Mapping[str, object]) -> tuple[Path, Path]:
    rows = [{"question": f"{one}+1?", "answer": one + 1} for one in range(40)]
    data, prompt = folder / "sums.jsonl", folder / "prompt.txt"
    data.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more]), "utf-8")
    prompt.write_text("Answer with a number.\n", "utf-8")
    return data, prompt


def task(folder: Path, metric: Metric = "exact") -> Questions:
    data, prompt = files(folder)
    return Questions(QuestionSettings(data=data, prompt=prompt, metric=metric))


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What improves the prompt of a file by its questions; the model is still to be named."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    data, prompt = files(tmp_path)
    return ["optimize", str(data), "--prompt", str(prompt), "--metric", "number"]


class TestQuestions(TaskSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def build(self) -> Questions:
        return task(self.folder)


@pytest.mark.parametrize(
    ("metric", "said", "reward"),
    [
        ("exact", " Paris. ", 1.0),
        ("exact", "It is Paris.", 0.0),
        ("contains", "It is PARIS, France.", 1.0),
        ("contains", "Lyon", 0.0),
        ("number", "6 * 7 is 42.0", 1.0),
        ("number", "42 or 43", 0.0),
        ("number", "no idea", 0.0),
    ],
)
def test_a_metric_by_name(tmp_path: Path, metric: Metric, said: str, reward: float) -> None:
    expected = "42" if metric == "number" else "Paris"
    question = Question("q", "?", (expected,))
    found = task(tmp_path, metric).score(Episode([], answer=said, end="answered"), question)
    assert found.reward == reward


def test_a_file_may_name_its_splits(tmp_path: Path) -> None:
    data, prompt = files(tmp_path)
    splits = ["train", "validation", "test", "train"]
    rows = [{"question": str(at), "answer": 1, "split": one} for at, one in enumerate(splits)]
    data.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    found = Questions(QuestionSettings(data=data, prompt=prompt))
    assert [one.text for one in found.questions("train")] == ["0", "3"]
    assert [one.text for one in found.questions("test")] == ["2"]


def test_a_question_that_comes_twice_keeps_both_answers(tmp_path: Path) -> None:
    data, prompt = files(tmp_path)
    answers = ["2", "two", "2"]
    rows = [{"question": "1 + 1?", "answer": answer, "split": "train"} for answer in answers]
    rows.append({"question": "Other?", "answer": "1", "split": "test"})
    data.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (question,) = Questions(QuestionSettings(data=data, prompt=prompt)).questions("train")
    assert question.answers == ("2", "two")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"])
def test_only_a_line_feed_ends_a_line_of_a_data_file(tmp_path: Path, separator: str) -> None:
    data, prompt = files(tmp_path)
    text = f"Which{separator}one?"
    rows = [{"question": text, "answer": 1, "split": "train"}]
    rows.append({"question": "Which?", "answer": 1, "split": "test"})
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    data.write_text("\r\n".join(lines) + "\r\n", "utf-8")
    questions = Questions(QuestionSettings(data=data, prompt=prompt)).questions("train")
    assert [question.text for question in questions] == [text]


@pytest.mark.parametrize("row", [{"question": "Why?"}, {"answer": "4"}, {"question": ""}])
def test_a_line_that_is_no_question_is_named(tmp_path: Path, row: Mapping[str, object]) -> None:
    data, prompt = files(tmp_path, row)
    with pytest.raises(InputError, match=r"sums.jsonl:41 "):
        Questions(QuestionSettings(data=data, prompt=prompt)).questions("train")


@pytest.mark.endpoint
@pytest.mark.lm
def test_a_prompt_becomes_better_with_no_task(command: list[str], tmp_path: Path) -> None:
    def answer(body: Mapping[str, Any]) -> str:
        told, asked = body["messages"][0]["content"], body["messages"][-1]["content"]
        if not asked.endswith("+1?"):
            better = f"Answer with a number. {ADVICE}"
            return chat_fields(analysis="It hurries.", candidates=[better])
        number = int(asked.removesuffix("+1?"))
        return str(number + 1 if ADVICE in told or number % 2 else "no idea")

    out = tmp_path / "run"
    with OpenAIServer([], answer) as server:
        address = ["--model", "mine", "--base-url", server.url]
        text = stdout_of(*command, *address, "--compare", "--budget", "200", "--output", out)
    arms = RunDirectory.open(out).collect().arms
    assert arms["optimized"].test.mean == 1.0 > arms["static"].test.mean
    assert ADVICE in text
    tested = RunDirectory.open(out)
    outcomes = [tested.trial(one).outcomes for one in tested.trials()]
    assert [sum(one.value or 0 for one in each) == len(each) for each in outcomes].count(True) == 1


@pytest.mark.endpoint
@pytest.mark.lm
def test_a_model_that_never_scores_is_not_paid_for_to_the_end(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evoprompt.experiments.cli.run._write_report", lambda *given: None)
    requests = 0

    def answer(body: Mapping[str, Any]) -> str:
        nonlocal requests
        if body["messages"][-1]["content"].endswith("+1?"):
            return "no idea"
        requests += 1
        return chat_fields(analysis="It hurries.", candidates=[f"Answer in manner {requests}."])

    with OpenAIServer([], answer) as server:
        command += ["--model", "mine", "--base-url", server.url, "--budget", "400"]
        text = stdout_of(*command, "--output", tmp_path / "run")
    assert requests <= 47, "45 iterations, and a probe of the writer"
    said = " ".join(text.split())
    assert "every reward up to iteration 5 is 0 (" in said
    assert "every reward is 0, the lowest, after 45 iterations" in said
    assert "in a configuration host.patience: 50" in said


@pytest.mark.lm
def test_a_setting_of_the_writer_joins_the_one_that_is_named(command: list[str]) -> None:
    writer = ["--lm", "openai/w", "--set", "engine.proposer.lm.record=exchanges.jsonl"]
    assert "openai/w" in stdout_of(*command, "--model", "openai:m", "--dry-run", *writer)


def test_a_file_needs_its_prompt(tmp_path: Path) -> None:
    data, prompt = files(tmp_path)
    assert "required: --prompt FILE" in stderr_of("optimize", str(data), "--model", "openai:m")
    assert evoprompt("optimize", "fake", "--prompt", str(prompt), "--model", "openai:m") == 2


@pytest.mark.endpoint
@pytest.mark.lm
def test_a_dry_run_estimates_the_tokens_that_a_run_spends(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evoprompt.experiments.cli.run._write_report", lambda *given: None)
    spent_tokens = {"policy": 0, "writer": 0}
    num_texts = 0

    def answer(body: Mapping[str, Any]) -> str:
        """Answer about half of the questions, others under each text, so that the run goes on."""
        nonlocal num_texts
        text = "\n".join(message["content"] for message in body["messages"])
        if text.endswith("+1?"):
            spent_tokens["policy"] += estimate_tokens(text)
            number = int(body["messages"][-1]["content"].removesuffix("+1?"))
            return str(number + 1) if zlib.crc32(text.encode()) % 2 else "no idea"
        num_texts += 1
        reply = chat_fields(
            analysis="It hurries.", candidates=[f"Answer with a number, in manner {num_texts}."]
        )
        spent_tokens["writer"] += estimate_tokens(text) + estimate_tokens(reply)
        return reply

    with OpenAIServer([], answer) as server:
        command += ["--model", "mine", "--base-url", server.url, "--budget", "120"]
        forecast = stdout_of(*command, "--dry-run")
        assert not server.requests
        assert evoprompt(*command, "--output", tmp_path / "run") == 0

    def numbers(pattern: str) -> list[int]:
        figures = re.search(pattern, forecast)
        assert figures, forecast
        return [int(number.replace(",", "")) for number in figures.groups()]

    policy, most_policy = numbers(r"tokens: about ([\d,]+) of prompts .* at most ([\d,]+)")
    calls, writer, most_calls, most_writer = numbers(
        r"models, all trials: about ([\d,]+) calls, ([\d,]+) tokens.* at most ([\d,]+) calls, "
        r"([\d,]+) tokens"
    )
    assert policy / 3 < spent_tokens["policy"] < 3 * policy < most_policy
    assert writer / 3 < spent_tokens["writer"] < 3 * writer < most_writer
    assert calls / 3 < num_texts < 3 * calls < most_calls


@pytest.mark.lm
def test_a_dry_run_prints_no_setting_that_only_a_training_has(command: list[str]) -> None:
    forecast = stdout_of(*command, "--model", "openai:m", "--dry-run", "--compare")
    settings: Any = yamlfile.parse(forecast.partition("optimized: engine.")[0], "the forecast")
    assert list(settings["arms"]["static"]["engine"]) == ["proposer"]
    assert "evaluate_every" not in settings
    assert "optimized: engine.proposer is {" in forecast
