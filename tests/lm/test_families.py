"""Every model that the documents and recipes name answers under our defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from provider import openai, rewriting
from strict_openai import StrictServer

from evoprompt.lm import LanguageModel, LmSettings
from evoprompt.plugins import build
from evoprompt.support.errors import InputError
from evoprompt.testing import samples

pytestmark = pytest.mark.lm

ROOT = Path(__file__).parents[2]
PLACES = ("README.md", "docs/**/*.md", "examples/**/*.yaml", "plugins/**/*.md", "evoprompt/**/*.py")
_NAME = re.compile(r"\b(?:openai|anthropic|gemini|azure|deepseek|hosted_vllm|ollama)/[\w.-]*\w")
BETTER = "Write <answer> and </answer> around the sum. Check it twice."

FAMILIES = (
    *("gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5.1", "gpt-5-chat-latest", "gpt-5-pro"),
    *("gpt-5-codex", "gpt-4.1", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini", "gpt-4-turbo", "gpt-4"),
    *("o1", "o1-pro", "o3", "o3-mini", "o3-pro", "o4-mini", "gpt-3.5-turbo"),
)


def named() -> list[str]:
    """Every model that a document, a recipe or a help text names."""
    texts = [path.read_text(encoding="utf-8") for place in PLACES for path in ROOT.glob(place)]
    return sorted({name for text in texts for name in _NAME.findall(text)})


def test_there_are_models_in_the_documents() -> None:
    assert {"openai/gpt-5-mini", "openai/gpt-4o-mini", "openai/gpt-4.1-mini"} <= set(named())


@pytest.mark.parametrize("model", named())
def test_every_model_named_proposes(model: str) -> None:
    with openai(rewriting(BETTER)) as server:
        lm = model if model != "openai/scripted" else {"model": model, "api_base": server.url}
        proposer = build("proposer", {"name": "reflection", "lm": lm, "background": False})
        (proposal, *_) = proposer.propose(samples.request())
        assert proposal.text.startswith(BETTER)
        [request] = server.requests
        assert request.body["model"] == model.partition("/")[2]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_of_openai_answers_under_our_defaults(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with StrictServer([], rewriting(BETTER)) as server:
        lm = {"model": f"openai/{name}", "api_base": server.url, "api_key_env": "OPENAI_API_KEY"}
        proposer = build("proposer", {"name": "reflection", "lm": lm, "background": False})
        (proposal, *_) = proposer.propose(samples.request())
        assert proposal.text.startswith(BETTER)
        assert server.refused == []


@pytest.mark.parametrize(
    ("settings", "finding"),
    [
        ({"model": "openai/gpt-5-mini", "max_tokens": 4096}, "max_tokens >= 16000"),
        ({"model": "openai/o3", "temperature": 0.5}, "temperature=1.0"),
        ({"model": "openai/gpt-4o-mini", "max_tokens": 20_000}, "at most 16384"),
        ({"model": "openai/"}, "lm.model is 'openai/'"),
    ],
)
def test_what_a_model_does_not_take_is_refused_before_a_request(
    settings: dict[str, Any], finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with pytest.raises(InputError, match=finding):
        build("proposer", {"name": "reflection", "lm": settings})


def test_a_model_that_thinks_is_given_room_and_no_temperature() -> None:
    thinking = LanguageModel(LmSettings(model="anthropic/claude-sonnet-4-5"))
    assert (thinking.max_tokens, thinking.temperature) == (16_000, None)
    plain = LanguageModel(LmSettings(model="openai/gpt-4"))
    assert (plain.max_tokens, plain.temperature) == (4_096, 1.0)
    unheard = LanguageModel(LmSettings(model="hosted_vllm/ours", temperature=0.3, max_tokens=99))
    assert (unheard.max_tokens, unheard.temperature) == (99, 0.3)
    none = LmSettings.model_validate({"model": "openai/our-deployment", "temperature": None})
    assert LanguageModel(LmSettings.model_validate(none.model_dump())).temperature is None
