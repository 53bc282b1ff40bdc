"""The calculator with a model that is not trained, behind a server as strict as OpenAI."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import evoprompt
from evoprompt_calculator.bank import SENTENCES
from evoprompt_calculator.task import Calculator, CalculatorSettings
from provider import openai

from evoprompt.experiments.directory import RunDirectory
from evoprompt.testing.openai_server import Answer, Calls, Status, chat_fields

YAML = Path(__file__).parents[2] / "tiny.yaml"
SIZES = {"train": 60, "validation": 24, "test": 30}
SETTINGS = [part for name, size in SIZES.items() for part in ("--set", f"task.{name}={size}")]
STEPS = ("one-step", "follow", "every-step", "in-order", "split")


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take longer than all the rest; one test asks for them."""
    monkeypatch.setattr("evoprompt.experiments.cli.run._write_report", lambda *given: None)


def calculating() -> Answer:
    """A model that heeds units, and calculates in steps, if it is told to."""
    task = Calculator(CalculatorSettings(**SIZES))
    known = {q.text: q for split in SIZES for q in task.questions(split)}

    def answer(body: Mapping[str, Any]) -> str | Calls:
        if body["model"] == "gpt-5-mini":
            better = " ".join(texts[0] for texts in (SENTENCES["units"], SENTENCES["one-step"]))
            return chat_fields(analysis="It hurries.", candidates=[better])
        instruction, asked, *rest = (message["content"] for message in body["messages"])
        if rest:
            return str(rest[-1])
        question = known[asked]
        told = {idea for idea, texts in SENTENCES.items() for text in texts if text in instruction}
        ready = "units" in told or not question.row["unit"]
        ready &= question.row["kind"] != "three steps" or bool(told & set(STEPS))
        assert [tool["function"]["name"] for tool in body["tools"]] == ["calculate"]
        expression = question.answers[0] if ready else f"{question.answers[0]}+1"
        return Calls([("calculate", json.dumps({"expression": expression}))])

    return answer


def test_the_instruction_of_a_model_behind_a_server_becomes_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    with openai(calculating()) as server:
        given = ("optimize", str(YAML), "--model", "openai:gpt-4.1-nano", "--budget", "400")
        unused = ("--set", "engine.verify_questions=20")
        assert evoprompt(*given, *SETTINGS, *unused, "--compare", "--output", out) == 0
        requests = len(server.requests)
    run = RunDirectory.open(Path(out))
    summary = run.collect()
    (before,), (after,) = (summary.arms[arm].seeds for arm in ("static", "optimized"))
    assert after.test.value == 1.0 > before.test.value
    assert after.rollouts <= 400
    assert requests <= 2 * (before.rollouts + after.rollouts)
    assert set(after.test.metrics) >= {"tool_calls"}
    assert [point[0] for point in after.curve] == sorted(point[0] for point in after.curve)
    said = capsys.readouterr().out
    assert "the optimization ended: the incumbent is perfect on the whole validation set" in said
    assert re.search(
        r"settings of engine that only a training uses: .*verify_questions", " ".join(said.split())
    )
    assert evoprompt("best", out) == 0
    assert capsys.readouterr().out.strip() == after.best_instruction
    with openai(calculating()) as server:
        assert evoprompt("eval", out, "--split", "validation", "--json") == 0
    assert json.loads(capsys.readouterr().out)["evaluation"]["value"] == 1.0


def test_test_questions_that_fail_are_counted_with_their_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    task = Calculator(CalculatorSettings(**SIZES))
    unlucky = {question.text for question in task.questions("test")[:3]}
    answers = calculating()
    assert callable(answers)

    def answer(body: Mapping[str, Any]) -> str | Calls | Status:
        if any(message["content"] in unlucky for message in body["messages"]):
            return Status(400, message="too long")
        found = answers(body)
        assert isinstance(found, str | Calls)
        return found

    with openai(answer) as server:
        given = ("optimize", str(YAML), "--model", "openai:gpt-4.1-nano", "--budget", "400")
        assert evoprompt(*given, *SETTINGS, "--output", out) == 0
        requests = len(server.requests)
    said = " ".join(capsys.readouterr().out.split())
    (found,) = RunDirectory.open(Path(out)).collect().arms["optimized"].seeds
    assert (found.test.failures.failed, found.test.failures.of) == (3, 30)
    assert "too long" in found.test.failures.first
    assert said.count("failed: 3 of 30, first because ") == 2  # as a notice, and with the value
    assert f"the program: gpt-4.1-nano: {requests:,} calls, " in said
    with openai(answer):
        assert evoprompt("eval", out) == 0
    assert "failed: 3 of 30, first because " in " ".join(capsys.readouterr().out.split())


def test_a_run_that_ran_out_of_requests_tests_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    with openai(calculating()) as server:
        given = ("optimize", str(YAML), "--model", "openai:gpt-4.1-nano", "--calls", "60")
        assert evoprompt(*given, *SETTINGS, "--output", out) == 0
        assert 52 <= len(server.requests) <= 60
    said = capsys.readouterr().out
    assert "the budget is 45" in said
    (found,) = RunDirectory.open(Path(out)).collect().arms["optimized"].seeds
    (played,) = re.findall(r"the test has (\d+) of 30 questions, as the budget", said)
    assert 0 < int(played) < 30
    assert found.rollouts >= 45 // 2 + int(played)
    assert evoprompt("best", out) == 0
    assert capsys.readouterr().out.strip() == found.best_instruction


def test_options_beside_the_folder_of_a_resume_are_no_more_left_out_than_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    with openai(calculating()) as server:
        given = ("optimize", str(YAML), "--model", "openai:gpt-4.1-nano", "--budget", "100")
        assert evoprompt(*given, *SETTINGS, "--output", out) == 0
        before = len(server.requests)
        assert evoprompt("optimize", out, "--resume", "--model=mine") == 2
        assert "cannot be continued" in capsys.readouterr().err
        assert evoprompt("optimize", out, "--resume", "--compare") == 2
        assert "leave --compare out" in capsys.readouterr().err
        assert evoprompt("optimize", out, "--resume", "--seeds", "2", "--dry-run") == 0
        assert len(server.requests) == before


def test_a_dry_run_says_what_it_costs_at_most_and_sends_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with openai(calculating()) as server:
        given = ("optimize", "calculator", "--model", "openai:gpt-4.1-nano", "--budget", "200")
        assert evoprompt(*given, "--usd", "2", "--dry-run") == 0
        assert not server.requests
    said = capsys.readouterr().out
    assert "at most 200, validation included; of them 50 to test the result on 50 of 300" in said
    assert "requests: about 600, at most 1,200, 6 a rollout" in said
    assert re.search(r"cost: about [\d.]+ USD, at most ", said)
    assert "stopped before: 2 usd" in said


ROOT = Path(__file__).parents[4]
GUIDE = (ROOT / "docs" / "frozen.md").read_text(encoding="utf-8")
COMMANDS = re.findall(
    r"^evoprompt (?:optimize|best runs/frozen|report runs/frozen).*$", GUIDE, re.M
)


def test_the_commands_of_the_guide_do_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    elsewhere = ("runs/trained", "--from-traces")  # their files; tests/cli/test_traces.py
    first, *others = (line for line in COMMANDS if not any(one in line for one in elsewhere))
    assert "--dry-run" in first
    assert len(others) == 3
    with openai(calculating()) as server:
        for line in (first, *others):
            assert bool(server.requests) == (line in others[1:]), line
            smaller = SETTINGS if " optimize " in line else []
            assert evoprompt(*line.partition(">")[0].split()[1:], *smaller) == 0, line
        given = ("run", "examples/calculator/tiny.yaml", "--seeds-from", "runs/frozen")
        assert evoprompt(*given, "--dry-run") == 0
    assert "runs/frozen" in capsys.readouterr().out
    assert (tmp_path / "runs" / "frozen" / "report.html").stat().st_size > 10_000
