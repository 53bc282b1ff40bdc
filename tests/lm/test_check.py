"""A language model is checked before it is needed, and asked once before training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from strict_openai import StrictServer

from evoprompt.lm import BudgetSettings, LanguageModel, LmSettings, Prices, SpendTracker
from evoprompt.plugins import build
from evoprompt.proposers.combinators import Fallback, NoProposer
from evoprompt.proposers.published import Paraphrase
from evoprompt.support.errors import InputError
from evoprompt.testing.openai_server import OpenAIServer, Status

pytestmark = pytest.mark.lm

MODEL = "openai/gpt-5-mini"


def language(
    server: OpenAIServer, spending: SpendTracker | None = None, **settings: object
) -> LanguageModel:
    endpoint = {"model": MODEL, "api_base": server.url, "api_key_env": "OPENAI_API_KEY"}
    return LanguageModel(
        LmSettings.model_validate({**endpoint, "retries": 0, **settings}), spending=spending
    )


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


@pytest.mark.parametrize(
    ("key", "settings", "why"),
    [
        ("wrong", {}, "Incorrect API key provided"),
        ("sk-test", {"budget": BudgetSettings(calls=0)}, "the budget is 0"),
    ],
)
def test_what_only_an_answer_can_show_is_found_by_a_probe(
    key: str, settings: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with StrictServer([], "ready") as server:
        language(server, **settings).check()
        with pytest.raises(InputError, match=why):
            language(server, **settings).check(probe=True)


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
    with pytest.raises(InputError, match="export OPENAI_API_KEY="):
        build("proposer", {"name": "reflection", "lm": MODEL})
    with pytest.raises(InputError, match="export MY_KEY"):
        LanguageModel(LmSettings(model="m", api_key_env="MY_KEY")).check()


def test_a_budget_in_money_needs_a_price() -> None:
    settings = LmSettings(model="openai/unheard-of", budget=BudgetSettings(usd=1.0))
    with pytest.raises(InputError, match="USD per million tokens"):
        LanguageModel(settings).check()
    known = LanguageModel(LmSettings(model="openai/gpt-4o-mini", budget=BudgetSettings(usd=1.0)))
    assert known.prices == Prices(input=0.15, output=0.6)


def test_with_a_fallback_a_model_that_is_down_is_warned_of() -> None:
    with OpenAIServer([], Status(500)) as server:
        fallback = Fallback(Paraphrase(language(server)), NoProposer())
        fallback.check()
        with pytest.warns(UserWarning, match="NoProposer proposes until this is fixed"):
            fallback.check(probe=True)
        refused = Paraphrase(language(server, max_tokens=5))
        with pytest.raises(InputError, match="16000"):
            Fallback(refused, NoProposer()).check()


def test_recording_a_replay_is_refused() -> None:
    with pytest.raises(InputError, match="one of them"):
        LmSettings(model="m", record=Path("a"), replay=Path("b"))


@pytest.mark.parametrize("url", ["http://me:pw@host/v1", "http://host/v1?api_key=abcdef"])
def test_a_url_with_a_credential_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="with a credential") as raised:
        LmSettings.model_validate({"model": "openai/x", "api_base": url})
    told = str(raised.value).split("[type=", maxsplit=1)[0]
    assert "pw@" not in told
    assert "abcdef" not in told
