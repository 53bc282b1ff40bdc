"""``evoprompt run`` with a proposer that asks a language model, as a user would configure it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import evoprompt, stderr_of, stdout_of

from evoprompt.lm import SPENDING_FILE, SpendTracker
from evoprompt.testing.openai_server import OpenAIServer, Status, chat_fields

pytestmark = pytest.mark.usefixtures("fake_task")

CONFIG = """
task: fake
host: {{name: fake}}
engine:
  population_size: 4
  evolve_every: 6
  verify_questions: 10
  proposer:
    name: reflection
    background: false
    lm:
      model: openai/scripted
      api_base: {url}
      prices: {{input: 1.0, output: 4.0}}
      budget: {{calls: 3}}    # of which one probes the model
      record: exchanges.jsonl
arms: [coevolve]
budget: 1200
evaluate_every: 400
"""
BETTER = (
    "Answer the question inside <answer> and </answer>. Search for every hop before you answer. "
    "Keep the answer to a single name."
)


def command(directory: Path, url: str) -> tuple[object, ...]:
    path = directory / "run.yaml"
    path.write_text(CONFIG.format(url=url), encoding="utf-8")
    return "run", path, "--output", directory / "out"


def test_the_price_is_told_before_and_kept_to(tmp_path: Path) -> None:
    with OpenAIServer([], chat_fields(analysis="It guesses.", candidates=[BETTER])) as server:
        before, _, _ = stdout_of(*command(tmp_path, server.url)).partition("share solved")
        assert len(server.requests) == 3
    # One each ten steps, and one at the start: this host does not say that a step has 40 rollouts.
    assert "language model: about 119 calls" in before
    trial = tmp_path / "out" / "trials" / "coevolve" / "seed-0"
    exchanges = (trial / "exchanges.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(exchanges) == 2
    journal = (tmp_path / "out" / "lm-spending.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(journal) == 5
    log = (trial / "events.jsonl").read_text(encoding="utf-8")
    events = [json.loads(line) for line in log.splitlines()]
    assert any("the budget is 3" in e["message"] for e in events if e["event"] == "notice")
    assert (tmp_path / "out" / "best_instruction.txt").read_text(encoding="utf-8").strip() == BETTER


@pytest.mark.lm
@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.nightly)])
def test_a_budget_is_of_the_whole_run_and_of_what_resumes_it(tmp_path: Path, jobs: str) -> None:
    with OpenAIServer([], chat_fields(analysis="It guesses.", candidates=[BETTER])) as server:
        evoprompt(*command(tmp_path, server.url), "--seeds", "3", "--jobs", jobs)
        assert len(server.requests) == 3
        evoprompt(*command(tmp_path, server.url), "--seeds", "4", "--jobs", jobs, "--resume")
        assert len(server.requests) == 3
    assert SpendTracker(tmp_path / "out" / SPENDING_FILE).spent.calls == 3


@pytest.mark.lm
def test_a_dry_run_asks_nothing_and_a_run_asks_before_it_begins(tmp_path: Path) -> None:
    with OpenAIServer([], "ready") as server:
        dry = (*command(tmp_path, server.url), "--dry-run")
        assert "reflection can be asked" in stdout_of(*dry)
        assert server.requests == []
        # It is too short to evolve.
        assert "language models" not in stdout_of(*dry, "--set", "budget=6")
    with OpenAIServer([], Status(401)) as server:
        assert "the language model gave no answer" in stderr_of(*command(tmp_path, server.url))
    assert not (tmp_path / "out").exists()
