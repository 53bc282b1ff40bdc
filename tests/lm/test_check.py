"""A language model is checked before it is needed, and asked once before training."""

from __future__ import annotations

from pathlib import Path

import pytest
from provider import openai, rewriting

from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.lm import BudgetSettings, LanguageModel, LmSettings, Prices, SpendTracker
from evoprompt.plugins import build
from evoprompt.proposers.combinators import Fallback, Mixture, NoProposer
from evoprompt.proposers.published import Paraphrase
from evoprompt.testing.openai_server import OpenAIServer, Status

pytestmark = pytest.mark.lm

MODEL = "openai/gpt-5-mini"


def language(
    server: OpenAIServer, spending: SpendTracker | None = None, **settings: object
) -> LanguageModel:
    given = {"model": MODEL, "api_base": server.url, "retries": 0, **settings}
    return LanguageModel(LmSettings.model_validate(given), spending=spending)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def test_a_check_sends_nothing_and_a_probe_one_short_request_that_is_not_recorded(
    tmp_path: Path,
) -> None:
    with OpenAIServer([], "ready") as server:
        model = language(server, record=str(tmp_path / "lm.jsonl"))
        model.check()
        assert server.requests == []
        model.check(probe=True)
        model.check(probe=True)
        [request] = server.requests
        assert len(request.prompt) < 100
        assert model.spending.spent.calls == 1
    assert not (tmp_path / "lm.jsonl").exists()


def test_who_has_answered_in_this_run_is_not_probed_again(tmp_path: Path) -> None:
    with OpenAIServer([], "ready") as server:
        language(server, SpendTracker(tmp_path / "spending")).check(probe=True)
        language(server, SpendTracker(tmp_path / "spending")).check(probe=True)
        assert len(server.requests) == 1
        other = language(server, SpendTracker(tmp_path / "spending"), model="openai/o3")
        other.check(probe=True)
        assert len(server.requests) == 2


def test_a_wrong_key_is_found_by_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with OpenAIServer([], "ready") as server:
        language(server).check()
        with pytest.raises(InputError, match="Incorrect API key provided"):
            language(server).check(probe=True)


def test_a_budget_that_leaves_no_call_is_found_by_a_probe() -> None:
    with OpenAIServer([], "ready") as server:
        with pytest.raises(InputError, match="the budget is 0"):
            language(server, budget=BudgetSettings(calls=0)).check(probe=True)
        assert server.requests == []


def test_a_recording_needs_neither_key_nor_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    (tmp_path / "lm.jsonl").touch()
    LanguageModel(LmSettings(model=MODEL, replay=tmp_path / "lm.jsonl")).check(probe=True)


def test_what_is_missing_is_found_when_a_proposer_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    for settings in (
        {"name": "reflection", "lm": MODEL},
        {"name": "mixture", "lm": MODEL, "proposers": ["history"]},
    ):
        with pytest.raises(InputError, match="export OPENAI_API_KEY="):
            build("proposer", settings)


def test_a_missing_key_of_a_name_of_ones_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(InputError, match="export MY_KEY"):
        LanguageModel(LmSettings(model="m", api_key_env="MY_KEY")).check()


def test_a_budget_in_money_needs_a_price() -> None:
    settings = LmSettings(model="openai/unheard-of", budget=BudgetSettings(usd=1.0))
    with pytest.raises(InputError, match="USD per million tokens"):
        LanguageModel(settings).check()
    known = LanguageModel(LmSettings(model="openai/gpt-4o-mini", budget=BudgetSettings(usd=1.0)))
    assert known.prices == Prices(input=0.15, output=0.6)


def test_a_mixture_probes_all_of_its_models() -> None:
    with OpenAIServer([], Status(500)) as server:
        mixture = Mixture({"paraphrase": Paraphrase(language(server)), "silent": NoProposer()})
        with pytest.raises(InputError, match="gave no answer"):
            mixture.check(probe=True)


def test_with_a_fallback_a_model_that_is_down_is_warned_of() -> None:
    with OpenAIServer([], Status(500)) as server:
        fallback = Fallback(Paraphrase(language(server)), NoProposer())
        fallback.check()
        with pytest.warns(UserWarning, match="NoProposer proposes until this is fixed"):
            fallback.check(probe=True)
        refused = Paraphrase(language(server, max_tokens=5))
        with pytest.raises(InputError, match="16000"):
            Fallback(refused, NoProposer()).check()


def test_an_engine_hands_the_check_on() -> None:
    with openai(rewriting("Be brief.")) as server:
        proposer = build("proposer", {"name": "reflection", "lm": MODEL})
        engine = Engine(["Be good."], proposer=proposer)
        engine.check()
        assert server.requests == []
        engine.check(probe=True)
        assert len(server.requests) == 1
        Engine(["Be good."]).check(probe=True)
