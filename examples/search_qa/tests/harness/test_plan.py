from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer
from threading import Thread

import pytest
from evoprompt_search_qa.commands import app
from evoprompt_search_qa.harness.plan import Wanted, plan_evaluation
from typer.testing import CliRunner

from evoprompt.agents.tasks import Plan
from evoprompt.errors import InputError

NOWHERE = "http://127.0.0.1:9"


def wanted(data_sets: Sequence[str] = ("tiny",), methods: Sequence[str] = ("direct",)) -> Wanted:
    return Wanted(methods, data_sets, None, None, "tiny", None, None, "cpu", None)


def missing(plan: Plan) -> dict[str, str]:
    return {need.subject: need.remedy for need in plan.needs if need.missing}


def test_the_tiny_world_needs_nothing() -> None:
    plan = plan_evaluation(replace(wanted(methods=("direct", "rag")), limit=4), pytest.fail)
    figures = dict(plan.figures)
    assert figures["methods"] == "Direct, RAG"
    assert figures["questions"] == "12: 1-hop 4, 2-hop 4, 3-hop 4"
    assert figures["to answer"].startswith("24, ")
    assert not missing(plan)


def test_what_is_missing_comes_with_a_remedy(tmp_path: Path) -> None:
    asked = replace(
        wanted(["nq"], ["direct", "search-r1"]),
        data=tmp_path,
        policy="openai:m",
        base_url=f"{NOWHERE}/v1",
        retriever=NOWHERE,
        instruction=tmp_path / "none.txt",
    )
    found = missing(plan_evaluation(asked, pytest.fail))
    assert set(found) == {"endpoint", "questions", "search server", "instruction"}
    assert found["questions"] == f"evoprompt search-qa data prepare --output {tmp_path}"
    assert found["instruction"].startswith("evoprompt best RUN > ")
    assert "search server" in missing(plan_evaluation(replace(asked, retriever=None), pytest.fail))
    alone = replace(asked, methods=["direct"], policy=f"tiny:{tmp_path}", instruction=None)
    assert set(missing(plan_evaluation(alone, pytest.fail))) == {"questions", "policy"}
    local = replace(alone, policy=f"transformers:{tmp_path}")
    assert set(missing(plan_evaluation(local, pytest.fail))) == {"questions", "model"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"data": [{"id": "m"}]}', ""),
        ('{"data": [{"id": "other"}]}', "serves other, not m"),
        ('{"models": []}', "answers garbage"),
        ("<html>", "answers garbage"),
    ],
)
def test_an_endpoint_is_asked_what_it_serves(body: str, said: str) -> None:
    class Models(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/v1/models" else 404)
            self.end_headers()
            self.wfile.write(body.encode())

    with TCPServer(("127.0.0.1", 0), Models) as server:
        Thread(target=server.handle_request).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        plan = plan_evaluation(replace(wanted(), policy="openai:m", base_url=url), pytest.fail)
    (need,) = plan.needs
    assert need.missing == bool(said)
    assert said in need.text


def test_what_there_cannot_be_is_bad_input_and_not_missing() -> None:
    for asked in (wanted(["squad"]), replace(wanted(), policy="gpt")):
        with pytest.raises(InputError, match="required: "):
            plan_evaluation(asked, pytest.fail)


def test_a_dry_command_asks_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"id": 1, "question": "Who?", "golden_answers": ["Ada"]}) + "\noops")
    command = ["eval", "--output", str(tmp_path / "out"), "--datasets", str(path), "--dry-run"]
    ended = CliRunner().invoke(app, [*command, "--methods", "direct"])
    assert ended.exit_code == 0, ended.output
    assert f"left out: {path}:2: is not JSON" in ended.output
    assert "questions: 1: mine 1" in ended.output
    ended = CliRunner().invoke(app, [*command, "--methods", "rag"])
    assert ended.exit_code == 3
    assert "missing search server: none is named -> give its address" in ended.output
    assert not (tmp_path / "out").exists()
