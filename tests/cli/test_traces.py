"""``evoprompt optimize --from-traces``: yesterday's failures are the writer's first requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import evoprompt, stderr_of

from evoprompt import Engine, Question
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.traces import read_traces
from evoprompt.gateway.conversations import Conversations
from evoprompt.gateway.settings import GatewaySettings
from evoprompt.support.errors import InputError
from evoprompt.testing.openai_server import OpenAIServer, chat_fields
from evoprompt.types import Turn

ADVICE = "Add carefully."
HINT = "the user wanted the sum"


def traces(folder: Path) -> Path:
    """Six conversations: one was right, two failed alike, one has no reward."""
    said = [
        {"role": "system", "content": "Answer with a number."},
        {"role": "user", "content": "70+1?"},
        {"role": "assistant", "content": "no idea"},
        {"role": "user", "content": "please"},
        {"role": "assistant", "content": "7"},
    ]
    rows = [
        {"messages": said, "reward": 0, "feedback": HINT, "who": "somebody"},
        {"question": "80+1?", "answer": "81", "reward": 1},
        {"question": "80+1?", "answer": "80", "expected": "81", "reward": 0.5},
        {"question": "90+1?", "answer": "old", "reward": False},
        {"question": "90+1?", "answer": "new", "reward": False},
        {"question": "95+1?", "answer": "?"},
    ]
    file = folder / "traces.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


class Model:
    """Writes and answers; keeps what it was asked, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, body: Mapping[str, Any]) -> str:
        told, asked = body["messages"][0]["content"], body["messages"][-1]["content"]
        self.asked.append(asked)
        if not asked.endswith("+1?"):
            better = f"Answer with a number. {ADVICE}"
            return chat_fields(analysis="It hurries.", candidates=[better])
        number = int(asked.removesuffix("+1?"))
        return str(number + 1 if ADVICE in told or number % 2 else "no idea")


@pytest.fixture
def prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    file = tmp_path / "prompt.txt"
    file.write_text("Answer with a number.\n", "utf-8")
    return file


@pytest.mark.endpoint
@pytest.mark.lm
def test_failures_are_read_before_the_model_is_asked_and_what_is_written_is_measured(
    tmp_path: Path, prompt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out, model = tmp_path / "sums.jsonl", tmp_path / "run", Model()
    rows = [{"question": f"{one}+1?", "answer": one + 1} for one in range(40)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with OpenAIServer([], model) as server:
        given = ["--model", "mine", "--base-url", server.url, "--metric", "number", "--compare"]
        given += ["--from-traces", str(traces(tmp_path)), "--budget", "200", "--output", str(out)]
        assert evoprompt("optimize", str(data), "--prompt", str(prompt), *given) == 0
    first = next(one for one in model.asked if "Episode 1" in one)
    assert not any(one.endswith("+1?") for one in model.asked[: model.asked.index(first)])
    for shown in (HINT, "please", "new", "Instead of episode 3"):  # of equals the latest
        assert shown in first
    assert "old" not in first
    assert "95+1" not in first
    assert "3 of 3 failures in 5 conversations; 1 have no reward" in capsys.readouterr().err
    run = RunDirectory.open(out)
    start = run.config.arms["optimized"].instructions
    assert start == ("Answer with a number.", {"instruction": f"Answer with a number. {ADVICE}"})
    arms = run.collect().arms
    assert arms["optimized"].test.mean == 1.0 > arms["static"].test.mean
    assert run.spending.is_file()  # the writer's first request included


@pytest.mark.endpoint
@pytest.mark.lm
def test_without_a_task_files_are_written_and_nothing_is_claimed(
    tmp_path: Path, prompt: Path
) -> None:
    model, out = Model(), tmp_path / "out"
    given = ["optimize", "--from-traces", str(traces(tmp_path)), "--output", str(out)]
    with OpenAIServer([], model) as server:
        told = ["--lm", "openai/mine", "--writer-base-url", server.url]
        error = stderr_of(*given, *told, "--prompt", str(prompt), code=0)
        assert "none of them is shown to be better" in error
        assert "required: one, or to write without measuring" in stderr_of(*given, *told)
    (file,) = out.iterdir()
    assert file.read_text("utf-8") == f"Answer with a number. {ADVICE}\n"
    assert not any(one.endswith("+1?") for one in model.asked)


def test_a_gateway_s_folder_holds_its_conversations_and_who_is_in_use(tmp_path: Path) -> None:
    settings = GatewaySettings(
        upstream="http://127.0.0.1:9/v1", directory=tmp_path / "gate", rollouts=2, groups=1
    )
    served = Conversations(Engine(["Be brief."]), settings)
    question = Question("q1", "Why?", ("because",))
    for reward, feedback in ((0.0, HINT), (1.0, "")):
        key = served.conversation(question, "visit")
        with served.calling(key):
            served.record_answer(key, "", f"it is {reward}")
        served.reward(key, reward, feedback)
    served.close()
    found = read_traces(settings.directory)
    assert found.deployed == {"instruction": "Be brief."}
    assert [
        (one.question, one.answer, one.turns, one.reward, one.feedback) for one in found.scored
    ] == [
        ("Why?", "because", (Turn("it is 0.0", ""),), 0.0, HINT),
        ("Why?", "because", (Turn("it is 1.0", ""),), 1.0, ""),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is no conversation"),
        ('{"question": "Why?", "reward": 0}', "lacks a question or an answer"),
        ('{"question": "Why?", "answer": "so", "reward": "bad"}', "reward"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_text(f'{{"question": "a", "answer": "b", "reward": 1}}\n{line}\n', "utf-8")
    with pytest.raises(InputError, match=r"traces.jsonl:2 ") as error:
        read_traces(file)
    assert said in str(error.value)


def test_where_nothing_failed_or_nothing_is_there_it_says_so(tmp_path: Path) -> None:
    error = stderr_of("optimize", "--from-traces", str(tmp_path))
    assert "the folder of a gateway or a log_dir" in error
    assert "no CONFIG, TASK or TABLE is given" in stderr_of("optimize")
