"""``evoprompt optimize``: the writer's requests and key go to the writer's server alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class World:
    """What the command may be pointed at.

    Attributes:
        policy: server of the policy.
        provider: stands in for api.openai.com, where the key of the environment belongs.
        folder: of the sources, and of what the commands write.
        sources: the arguments that name each kind of source.
    """

    policy: StrictServer
    provider: StrictServer
    folder: Path
    sources: Mapping[str, list[str]]

    def optimize(self, kind: str, *more: str, output: str = "run") -> int:
        """Run the command on a source, and return its exit code."""
        written = ["--output", str(self.folder / output)]
        return evoprompt("optimize", *self.sources[kind], *written, *more)

    def optimize_policy(self, kind: str, *more: str) -> int:
        """Run the command on a source for the policy, within 100 rollouts."""
        served = ["--model", POLICY, "--base-url", self.policy.url, "--budget", "100"]
        return self.optimize(kind, *served, *more)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with StrictServer(POLICY) as policy, StrictServer(WRITER) as provider:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_API_BASE", provider.url)
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        yield World(policy, provider, tmp_path, sources(tmp_path, policy.url))


def sources(folder: Path, url: str) -> dict[str, list[str]]:
    data, prompt = folder / "sums.jsonl", folder / "prompt.txt"
    rows = [{"question": f"{number}+1?", "answer": number + 1} for number in range(40)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    prompt.write_text("Answer with a number.\n", "utf-8")
    config, traces = folder / "run.yaml", folder / "traces.jsonl"
    config.write_text(CONFIG.format(data=data, prompt=prompt, url=url), "utf-8")
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


@pytest.mark.parametrize("kind", KINDS)
def test_requests_of_the_writer_go_to_its_provider_and_not_to_the_server_of_the_model(
    world: World, kind: str
) -> None:
    assert world.optimize_policy(kind, "--lm", f"openai/{WRITER}") == 0
    assert world.provider.served == {(WRITER, f"Bearer {KEY}")}
    assert world.policy.served == {(POLICY, "Bearer none")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_on_a_server_of_ones_own_has_an_option_of_its_own(world: World, kind: str) -> None:
    with StrictServer("own") as writer:
        given = ["--lm", "openai/own", "--writer-base-url", writer.url]
        assert world.optimize_policy(kind, *given) == 0
        assert writer.served == {("own", "Bearer none")}
    assert {model for model, _ in world.policy.served} == {POLICY}
    assert not world.provider.requests


@pytest.mark.parametrize("kind", ["JSONL", "JSONL with traces"])
def test_without_a_writer_the_model_writes_on_its_own_server(world: World, kind: str) -> None:
    assert world.optimize_policy(kind) == 0
    questions = [str(request.body["messages"][-1]["content"]) for request in world.policy.requests]
    assert {question.endswith("+1?") for question in questions} == {True, False}
    assert world.policy.served == {(POLICY, "Bearer none")}
    assert not world.provider.requests


@pytest.mark.parametrize("kind", KINDS)
def test_each_server_gets_the_key_that_is_named_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("POLICY_KEY", "sk-of-the-policy")
    monkeypatch.setenv("WRITER_KEY", "sk-of-the-writer")
    keys = ["--api-key-env", "POLICY_KEY", "--writer-api-key-env", "WRITER_KEY"]
    with StrictServer("own") as writer:
        given = ["--lm", "openai/own", "--writer-base-url", writer.url]
        assert world.optimize_policy(kind, *given, *keys) == 0
        assert writer.served == {("own", "Bearer sk-of-the-writer")}
    assert world.policy.served == {(POLICY, "Bearer sk-of-the-policy")}
    assert not world.provider.requests


def test_traces_without_a_task_are_read_by_the_writer_at_its_own_address(world: World) -> None:
    assert world.optimize("traces", "--lm", f"openai/{WRITER}") == 0
    assert world.provider.served == {(WRITER, f"Bearer {KEY}")}
    given = ["--lm", f"openai/{POLICY}", "--writer-base-url", world.policy.url]
    assert world.optimize("traces", *given, output="own") == 0
    assert len(world.provider.requests) == len(world.policy.requests)
    assert world.policy.served == {(POLICY, "Bearer none")}
    assert (world.folder / "own" / "instruction-1.txt").read_text("utf-8") == f"{BETTER}\n"


OTHER_ADDRESS = ("--model", POLICY, "--base-url", "URL", "--writer-base-url", "URL")


@pytest.mark.parametrize(
    ("kind", "given", "remedy"),
    [
        ("traces", ("--lm", f"openai/{WRITER}", "--base-url", "URL"), "--writer-base-url URL"),
        ("JSONL", OTHER_ADDRESS, "--lm MODEL"),
        ("CONFIG", OTHER_ADDRESS, "--lm MODEL"),
        ("traces", ("--writer-base-url", "URL"), "--lm MODEL"),
    ],
)
def test_an_address_that_belongs_to_no_model_is_refused_in_one_line(
    world: World,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    given: tuple[str, ...],
    remedy: str,
) -> None:
    more = [world.policy.url if argument == "URL" else argument for argument in given]
    assert world.optimize(kind, *more) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert remedy in line
    assert not world.policy.requests
    assert not world.provider.requests
