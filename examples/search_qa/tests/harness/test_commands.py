from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.client import RetrievalClient
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.listening import bind, make_server
from evoprompt_retrieval.server import create_app
from evoprompt_search_qa.commands import app
from evoprompt_search_qa.harness.table import Table
from typer.testing import CliRunner, Result
from waiting import PATIENCE

from evoprompt.errors import InputError
from evoprompt.testing.openai_server import OpenAIServer, Status, Step, Text

torch.set_num_threads(1)


RECIPES = Path(__file__).parents[2]
TINY_RECIPE = str(RECIPES / "tiny.yaml")


def invoke(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    if isinstance(result.exception, Exception):
        raise result.exception
    return result


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    rows = [{"id": n, "question": f"number {n}", "golden_answers": [str(n)]} for n in range(30)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, {"id": 99}]))
    return path


def test_the_tiny_policy_on_the_tiny_world(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = invoke("eval", "--output", out, "--methods", "direct,rag", "--limit", 8)
    assert result.exit_code == 0, result.output
    table = Table.model_validate_json((out / "table.json").read_text())
    assert table.columns == ("1-hop", "2-hop", "3-hop", "average")
    direct, rag = (
        {column: cell.value for column, cell in zip(table.columns, row.cells, strict=True)}
        for row in table.rows
    )
    assert set(direct.values()) == {0.0}
    assert (rag["1-hop"] or 0.0) > 0.8
    assert "paired permutation test, 24 questions" in table.notes[0]
    assert "| RAG |" in result.output
    assert invoke("browse", out).exit_code == 0
    assert (out / "trajectories.html").read_text().count("<details") == 48


def test_an_endpoint_that_fails_for_some_is_asked_again_for_those(
    tmp_path: Path, questions: Path
) -> None:
    def answer(body: Mapping[str, Any]) -> Step:
        number = int(body["messages"][-1]["content"].split()[-1])
        return Status(400) if number % 10 == 7 else Text(f"<answer>{number}</answer>")

    def arguments(url: str) -> list[object]:
        where = ["--output", tmp_path / "out", "--policy", "openai:m", "--base-url", url]
        return ["eval", *where, "--methods", "direct", "--datasets", questions]

    with OpenAIServer(default=answer) as server:
        result = invoke(*arguments(server.url))
    assert result.exit_code == 1
    assert f"left out: {questions}:31: asks nothing" in result.output
    assert "| Direct | - (3 unscored) |" in result.output
    with OpenAIServer(default="<answer>no</answer>") as server:
        result = invoke(*arguments(server.url))
        assert len(server.requests) == 3
    assert result.exit_code == 0, result.output
    assert "| Direct | 90.0 [" in result.output
    assert "the model revision is unknown" in result.output


def test_an_endpoint_that_refuses_everything_stops_it(tmp_path: Path, questions: Path) -> None:
    with OpenAIServer(default=Status(401)) as server:
        result = invoke(
            *("eval", "--output", tmp_path / "out", "--methods", "direct,cot"),
            *("--policy", "openai:m", "--base-url", server.url, "--datasets", questions),
        )
        assert len(server.requests) == 30
    assert result.exit_code == 1
    assert "30 of the last 30 questions could not be answered" in result.output
    assert "refused the request with 401" in result.output


def test_an_instruction_may_be_given_to_the_agent(tmp_path: Path) -> None:
    text = tmp_path / "instruction.txt"
    text.write_text("Answer in French.\n")
    with OpenAIServer(default="<answer>oui</answer>") as server:
        invoke(
            *("eval", "--output", tmp_path / "out", "--methods", "search-r1", "--limit", 1),
            *("--policy", "openai:m", "--base-url", server.url, "--instruction", text),
        )
        given = [one.body["messages"] for one in server.requests]
    assert len(given) == 3
    for ((message),) in given:
        assert message["role"] == "user"
        assert message["content"].startswith("Answer in French.\n\nwhat is ")


def test_the_agent_is_that_of_the_recipe(tmp_path: Path, questions: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    text = (RECIPES / "qwen2.5-7b-trl.yaml").read_text()
    recipe.write_text(
        text.replace("  topk: 3", "  topk: 3\n  placement: append\n  instruction: Go.")
    )
    with OpenAIServer(default="<answer>no</answer>") as server:
        result = invoke(
            *("eval", "--output", tmp_path / "out", "--methods", "search-r1", "--limit", 1),
            *("--policy", "openai:m", "--base-url", server.url, "--recipe", recipe),
            *("--datasets", questions, "--retriever", "http://127.0.0.1:9"),
        )
        assert result.exit_code == 0, result.output
        (request,) = server.requests
    assert request.body["messages"] == [
        {"role": "system", "content": "Go."},
        {"role": "user", "content": "number 0"},
    ]
    assert "asked in chat messages, not with the token stream" in result.output
    limits = json.loads((tmp_path / "out" / "evaluation.json").read_text())["identity"]["limits"]
    assert (limits["searches"], limits["observation_tokens"]) == (6, 500)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--methods", "rga"], "did you mean 'rag'"),
        (["--methods", ","], "--methods is ','"),
        (["--datasets", "2wiki"], "data set is '2wiki'"),
        (["--policy", "gpt"], "policy is 'gpt'"),
        (["--policy", "openai:m"], "--base-url"),
        (["--policy", "openai:m", "--base-url", "me:80"], "--base-url is 'me:80', which is no"),
        (["--retriever", "http://a:99999"], "--retriever is .*, which is no address"),
        (["--policy", "tiny:nowhere"], "nowhere"),
        (["--methods", "rag", "--instruction", "x"], "is for the method search-r1"),
        (["--methods", "search-r1", "--instruction", "x"], "x cannot be read"),
        (["--methods", "direct,rag", "--compare", "rag"], "required: two of the methods"),
        (["--tokenizer", "x"], "--tokenizer is for a policy openai:NAME"),
        (["--recipe", TINY_RECIPE], "--recipe is for language models"),
        (["--policy", "openai:m", "--recipe", TINY_RECIPE], "is of the task 'search-qa'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        invoke("eval", "--output", tmp_path / "out", *arguments)
    assert not (tmp_path / "out").exists()


def test_real_questions_are_searched_for_on_the_server(tmp_path: Path, questions: Path) -> None:
    corpus_file = tmp_path / "corpus.jsonl"
    passages = [{"id": str(n), "contents": f"number {n} is passage {n}"} for n in range(30)]
    corpus_file.write_text("".join(f"{json.dumps(one)}\n" for one in passages))
    corpus = Corpus.open(corpus_file, tmp_path)
    index = Bm25Index.open(corpus, tmp_path / "bm25", lambda stage, done, total: None)
    common = ["--methods", "rag", "--limit", 6, "--datasets", questions, "--policy", "openai:m"]
    with bind("127.0.0.1", 0) as socket, OpenAIServer(default="<answer>5</answer>") as endpoint:
        socket.listen()
        server = make_server(create_app(corpus, index, "test", None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        url = "http://{}:{}".format(*socket.getsockname())
        where = ["--retriever", url, "--base-url", endpoint.url]
        result = invoke("eval", "--output", tmp_path / "up", *common, *where)
        server.should_exit = True
        thread.join(PATIENCE)
        assert result.exit_code == 0, result.output
        assert "| RAG | 16.7 [" in result.output
        identity = json.loads((tmp_path / "up" / "evaluation.json").read_text())["identity"]
        assert identity["corpus"] == f"test over corpus.jsonl, {corpus.manifest.fingerprint}"
        assert "[1] PASSAGE" in identity["prompt_format"]
        prompts = [one.prompt for one in endpoint.requests]
        assert all("is passage" in prompt for prompt in prompts)


def test_a_search_server_that_is_down_leaves_questions_unscored(
    tmp_path: Path, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = partial(RetrievalClient, attempts=1)
    monkeypatch.setattr("evoprompt_retrieval.client.RetrievalClient", impatient)
    with OpenAIServer() as endpoint:
        result = invoke(
            *("eval", "--output", tmp_path / "out", "--methods", "rag", "--limit", 6),
            *("--datasets", questions, "--policy", "openai:m", "--base-url", endpoint.url),
            *("--retriever", "http://127.0.0.1:9"),
        )
        assert endpoint.requests == []
    assert result.exit_code == 1
    assert "| RAG | - (6 unscored) | - (6 unscored) |" in result.output
    assert "6 questions are unscored, the last because the search server" in result.output


def test_real_questions_need_a_search_server(tmp_path: Path, questions: Path) -> None:
    with pytest.raises(InputError, match=r"rag search for the questions of mine.*--retriever"):
        invoke(
            *("eval", "--output", tmp_path / "out", "--methods", "direct,rag"),
            *("--datasets", questions),
        )
