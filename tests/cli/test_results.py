from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from rich.console import Console
from watched_runs import small

from evoprompt.experiments.cli.results import show_costs
from evoprompt.experiments.directory import RunDirectory
from evoprompt.lm import LanguageModel, LmSettings, SpendTracker
from evoprompt.optimizer.folder import SPENDING
from evoprompt.proposers.published import Paraphrase
from evoprompt.testing.openai_server import OpenAIServer, chat_fields
from evoprompt.testing.samples import request


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
    run = RunDirectory(tmp_path, small())
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
        "the program: gpt-4o-mini: 1 call, 120 tokens, 2.7e-05 USD",
        "the proposer: openai/odd: 1 call, 120 tokens, price unknown",
        "the proposer: openai/priced: 1 call, 120 tokens, 0.00018 USD",
    ]
