from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from evoprompt.evaluation import Evaluation, Headline
from evoprompt.experiments.cli.results import show_costs, show_results
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.summary import SeedSummary, Summary
from evoprompt.lm import LanguageModel, LmSettings, SpendTracker
from evoprompt.optimizer.folder import SPENDING
from evoprompt.proposers.published import Paraphrase
from evoprompt.storage import write_whole
from evoprompt.testing.openai_server import OpenAIServer, chat_fields
from evoprompt.testing.samples import request

ERRORS = Headline("errors", "errors a page", higher_is_better=False)
SETTINGS = {"task": "fake", "host": "fake", "budget": 80, "evaluate_every": 40}
EVENTS = [
    {"event": "seeded", "step": 0, "candidate": "c0", "components": {"instruction": "Proofread."}},
    {
        "event": "evaluated",
        "step": 0,
        "split": "validation",
        "candidate": "c0",
        "rollouts": 0,
        "metrics": {"errors": 12.5},
        "headline": {"name": "errors", "label": "errors a page", "higher_is_better": False},
    },
    {"event": "best", "step": 1, "candidate": "c0", "in_training": False},
]


def told(directory: Path, test: Evaluation, target: float | None) -> list[str]:
    """The lines that are printed of one trial."""
    run = RunDirectory(directory, RunConfig.model_validate({**SETTINGS, "target": target}))
    events = run.trial(TrialId("static", 0)).events
    write_whole(events, "".join(json.dumps(event) + "\n" for event in EVENTS))
    seed = SeedSummary(
        seed=0,
        headline=ERRORS,
        test=test,
        rollouts=80,
        rollouts_to_target=40,
        train_seconds=2.0,
        best={"instruction": "Proofread."},
        curve=[(0, 12.5)],
    )
    console = Console(file=io.StringIO(), width=80)
    show_results(run, Summary.of({"static": [seed]}, target), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def shown(directory: Path, test: Evaluation, target: float | None) -> tuple[str, str]:
    """The head and the row of the table of one trial."""
    lines = told(directory, test, target)
    head = next(number for number, line in enumerate(lines) if "arm (seeds)" in line)
    return lines[head], lines[head + 1]


def test_calls_and_the_target_are_told_where_there_are_any(tmp_path: Path) -> None:
    head, row = shown(tmp_path, Evaluation(value=11.25), None)
    assert " ".join(head.split()) == "arm (seeds) errors a page train s"
    assert row.split() == ["static", "(1)", "11.250", "2"]
    measured = Evaluation(value=11.25, metrics={"tool_calls": 3.5, "f1": 1})
    head, row = shown(tmp_path, measured, 12.0)
    assert " ".join(head.split()) == "arm (seeds) errors a page calls 12 after train s"
    assert row.split()[2:] == ["11.250", "3.50", "40", "2"]


def test_it_is_said_whether_the_best_is_shown_to_be_better(tmp_path: Path) -> None:
    test = Evaluation(value=10.0, by_stratum={}, metrics={})
    lines = " ".join(" ".join(told(tmp_path, test, None)).split())
    assert "not distinguishable from the first instruction" in lines


def costs(run: RunDirectory) -> str:
    console = Console(file=io.StringIO(), width=120)
    show_costs(run, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.lm
def test_costs_are_told_in_usd_wherever_the_price_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    run = RunDirectory(tmp_path, RunConfig.model_validate(SETTINGS))
    with OpenAIServer([], chat_fields(candidates=["Be brief."])) as server:
        for name, prices in (("priced", {"input": 1.0, "output": 4.0}), ("odd", None)):
            given = {"model": f"openai/{name}", "api_base": server.url, "prices": prices}
            settings = LmSettings.model_validate(given)
            language = LanguageModel(settings, spending=SpendTracker(run.spending))
            Paraphrase(language).propose(request())
    from evoprompt.optimizer.endpoint import Endpoint

    with OpenAIServer([], "Paris") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        asked = Endpoint("openai:gpt-4o-mini", spending=SpendTracker(tmp_path / SPENDING))
        found = asyncio.run(asked("Be brief.", {"question": "Capital of France?"}))
    assert found == "Paris"
    assert sorted(costs(run).splitlines()) == [
        "the program: gpt-4o-mini: 1 calls, 120 tokens, 2.7e-05 USD",
        "the writer: openai/odd: 1 calls, 120 tokens, price unknown",
        "the writer: openai/priced: 1 calls, 120 tokens, 0.00018 USD",
    ]
