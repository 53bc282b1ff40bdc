from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import evoprompt, stdout_of
from pydantic import JsonValue

from evoprompt.agents import Result, ToolCall


@pytest.fixture
def config(settings: dict[str, JsonValue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of both arms, a few steps each."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "open.yaml"
    host = {
        "name": "trl",
        "questions_per_step": 4,
        "rollouts_per_question": 2,
        "save_every": 1,
        "learning_rate": 1.0e-4,
    }
    engine = {
        "population_size": 3,
        "prune_every": 1,
        "evolve_every": 2,
        "proposer": "sentence-edit",
    }
    run = {
        "task": {"name": "search-qa-open", **settings},
        "host": host,
        "engine": engine,
        "budget": 32,
        "evaluate_every": 16,
    }
    path.write_text(json.dumps(run), encoding="utf-8")
    return path


def test_it_trains_and_goes_on_after_its_server_was_down_which_is_told_with_the_remedy(
    config: Path,
    settings: dict[str, JsonValue],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from evoprompt_search_qa.open.tool import SearchTool

    usual = SearchTool.__call__
    calls = []

    def down(tool: SearchTool, queries: list[ToolCall]) -> list[Result]:
        calls.append(queries)
        if len(calls) == 6:
            tool._url, tool._attempts = "http://127.0.0.1:9", 1
        return usual(tool, queries)

    monkeypatch.setattr(SearchTool, "__call__", down)
    arguments = ["run", str(config), "--output", "out", "--arm", "coevolve"]
    told = " ".join(stdout_of(*arguments, code=1).split())
    assert "the search server http://127.0.0.1:9/retrieve does not answer" in told
    assert "continue with: evoprompt run out --resume" in told
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    before = (tmp_path / "out/trials/coevolve/seed-0/events.jsonl").read_text(encoding="utf-8")
    assert evoprompt("run", "out", "--resume") == 0
    after = (tmp_path / "out/trials/coevolve/seed-0/events.jsonl").read_text(encoding="utf-8")
    assert after.splitlines()[:4] == before.splitlines()[:4]
    assert any(json.loads(line)["event"] == "evolved" for line in after.splitlines())
    summary = json.loads((tmp_path / "out/summary.json").read_text(encoding="utf-8"))
    (seed,) = summary["arms"]["coevolve"]["seeds"]
    assert seed["rollouts"] >= 32
    assert list(seed["test"]["by_kind"]) == ["hotpotqa"]
    assert seed["test"]["metrics"]["tool_calls"] > 0
    assert len(seed["curve"]) >= 3
    assert (tmp_path / "out/trials/coevolve/seed-0/policy/config.json").exists()
