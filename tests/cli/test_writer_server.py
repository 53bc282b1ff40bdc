"""``evoprompt optimize``: the writer's requests and key go to the writer's server alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import evoprompt

from evoprompt.testing.openai_server import OpenAIServer, Received, Status, Step, Text, chat_fields

pytestmark = [pytest.mark.endpoint, pytest.mark.lm]

WRITER = "gpt-4.1"
POLICY = "mine"
KEY = "sk-of-the-provider"
BETTER = "Answer with a number. Add carefully."
CONFIG = """
task: {{name: questions, data: {data}, prompt: {prompt}, metric: number}}
host: {{name: frozen}}
engine:
  proposer:
    name: reflection
    lm: {{model: openai/another, api_base: "{url}", api_key_env: KEY_OF_CONFIG}}
"""


class StrictServer(OpenAIServer):
    """Server that refuses all requests but chats with its own models.

    Args:
        models: their names.
    """

    def __init__(self, *models: str) -> None:
        super().__init__()
        self.models = models

    def reply(self, received: Received) -> Step:
        """Answer a request for one of the models."""
        if received.path != "/v1/chat/completions":
            return Status(404, message=f"no such path: {received.path}")
        if received.body["model"] not in self.models:
            return Status(404, message=f"no such model: {received.body['model']}")
        return Text(_answer(received.body))

    @property
    def served(self) -> set[tuple[str, str]]:
        """Model and key of all requests, also of those that were refused."""
        return {(request.body["model"], request.authorization) for request in self.requests}


def _answer(body: Mapping[str, Any]) -> str:
    question = str(body["messages"][-1]["content"])
    if not question.endswith("+1?"):
        return chat_fields(analysis="It hurries.", candidates=[BETTER])
    number = int(question.removesuffix("+1?"))
    careful = "carefully" in str(body["messages"][0]["content"])
    return str(number + 1 if careful or number % 2 else "no idea")


@pytest.fixture
def policy() -> Iterator[StrictServer]:
    with StrictServer(POLICY) as server:
        yield server


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictServer]:
    """Stand in for api.openai.com, where the key of the environment belongs."""
    with StrictServer(WRITER) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


@pytest.fixture
def sources(tmp_path: Path, policy: StrictServer) -> dict[str, list[str]]:
    """Return the arguments that name each kind of source."""
    data, prompt = tmp_path / "sums.jsonl", tmp_path / "prompt.txt"
    rows = [{"question": f"{number}+1?", "answer": number + 1} for number in range(40)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    prompt.write_text("Answer with a number.\n", "utf-8")
    config, traces = tmp_path / "run.yaml", tmp_path / "traces.jsonl"
    config.write_text(CONFIG.format(data=data, prompt=prompt, url=policy.url), "utf-8")
    failure = {"question": "90+1?", "answer": "no idea", "expected": "91", "reward": 0}
    traces.write_text(json.dumps(failure) + "\n", "utf-8")
    questions = [str(data), "--prompt", str(prompt), "--metric", "number"]
    task = ["questions", "--set", f"task.data={data}", "--set", f"task.prompt={prompt}"]
    return {
        "JSONL": questions,
        "TASK": [*task, "--set", "task.metric=number"],
        "CONFIG": [str(config)],
        "JSONL with traces": [*questions, "--from-traces", str(traces)],
        "traces": ["--from-traces", str(traces), "--prompt", str(prompt)],
    }


KINDS = ("JSONL", "TASK", "CONFIG", "JSONL with traces")


def optimize(source: list[str], folder: Path, *more: str) -> int:
    return evoprompt("optimize", *source, "--output", str(folder / "run"), *more)


@pytest.mark.parametrize("kind", KINDS)
def test_requests_of_the_writer_go_to_its_provider_and_not_to_the_server_of_the_model(
    tmp_path: Path,
    policy: StrictServer,
    provider: StrictServer,
    sources: dict[str, list[str]],
    kind: str,
) -> None:
    served = ["--model", POLICY, "--base-url", policy.url, "--budget", "100"]
    assert optimize(sources[kind], tmp_path, *served, "--lm", f"openai/{WRITER}") == 0
    assert provider.served == {(WRITER, f"Bearer {KEY}")}
    assert policy.served == {(POLICY, "Bearer none")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_on_a_server_of_ones_own_has_an_option_of_its_own(
    tmp_path: Path,
    policy: StrictServer,
    provider: StrictServer,
    sources: dict[str, list[str]],
    kind: str,
) -> None:
    served = ["--model", POLICY, "--base-url", policy.url, "--budget", "100"]
    with StrictServer("own") as writer:
        given = ["--lm", "openai/own", "--writer-base-url", writer.url]
        assert optimize(sources[kind], tmp_path, *served, *given) == 0
        assert writer.served == {("own", "Bearer none")}
    assert {model for model, _ in policy.served} == {POLICY}
    assert not provider.requests


@pytest.mark.parametrize("kind", ["JSONL", "JSONL with traces"])
def test_without_a_writer_the_model_writes_on_its_own_server(
    tmp_path: Path,
    policy: StrictServer,
    provider: StrictServer,
    sources: dict[str, list[str]],
    kind: str,
) -> None:
    served = ["--model", POLICY, "--base-url", policy.url, "--budget", "100"]
    assert optimize(sources[kind], tmp_path, *served) == 0
    questions = [str(request.body["messages"][-1]["content"]) for request in policy.requests]
    assert {question.endswith("+1?") for question in questions} == {True, False}
    assert policy.served == {(POLICY, "Bearer none")}
    assert not provider.requests


@pytest.mark.parametrize("kind", KINDS)
def test_each_server_gets_the_key_that_is_named_for_it(
    tmp_path: Path,
    policy: StrictServer,
    provider: StrictServer,
    sources: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.setenv("POLICY_KEY", "sk-of-the-policy")
    monkeypatch.setenv("WRITER_KEY", "sk-of-the-writer")
    served = ["--model", POLICY, "--base-url", policy.url, "--api-key-env", "POLICY_KEY"]
    with StrictServer("own") as writer:
        given = ["--lm", "openai/own", "--writer-base-url", writer.url]
        given += ["--writer-api-key-env", "WRITER_KEY", "--budget", "100"]
        assert optimize(sources[kind], tmp_path, *served, *given) == 0
        assert writer.served == {("own", "Bearer sk-of-the-writer")}
    assert policy.served == {(POLICY, "Bearer sk-of-the-policy")}
    assert not provider.requests


def test_traces_without_a_task_are_read_by_the_writer_at_its_own_address(
    tmp_path: Path, policy: StrictServer, provider: StrictServer, sources: dict[str, list[str]]
) -> None:
    assert optimize(sources["traces"], tmp_path, "--lm", f"openai/{WRITER}") == 0
    assert provider.served == {(WRITER, f"Bearer {KEY}")}
    given = ["--lm", f"openai/{POLICY}", "--writer-base-url", policy.url]
    assert optimize(sources["traces"], tmp_path / "own", *given) == 0
    assert len(provider.requests) == len(policy.requests)
    assert policy.served == {(POLICY, "Bearer none")}
    assert (tmp_path / "own" / "run" / "instruction-1.txt").read_text("utf-8") == f"{BETTER}\n"


@pytest.mark.parametrize(
    ("kind", "given", "remedy"),
    [
        ("traces", ("--lm", f"openai/{WRITER}", "--base-url", "URL"), "--writer-base-url URL"),
        (
            "JSONL",
            ("--model", POLICY, "--base-url", "URL", "--writer-base-url", "URL"),
            "--lm MODEL",
        ),
        (
            "CONFIG",
            ("--model", POLICY, "--base-url", "URL", "--writer-base-url", "URL"),
            "--lm MODEL",
        ),
        ("traces", ("--writer-base-url", "URL"), "--lm MODEL"),
    ],
)
def test_an_address_that_belongs_to_no_model_is_refused_in_one_line(
    tmp_path: Path,
    policy: StrictServer,
    provider: StrictServer,
    sources: dict[str, list[str]],
    capsys: pytest.CaptureFixture[str],
    kind: str,
    given: tuple[str, ...],
    remedy: str,
) -> None:
    more = [policy.url if argument == "URL" else argument for argument in given]
    assert optimize(sources[kind], tmp_path, *more) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert remedy in line
    assert not policy.requests
    assert not provider.requests
