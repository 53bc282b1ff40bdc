from __future__ import annotations

from pathlib import Path

import pytest

from evoprompt.errors import InputError, PluginError
from evoprompt.lm import LmSettings
from evoprompt.plugins import build
from evoprompt.proposers.background import Background
from evoprompt.proposers.combinators import Mixture
from evoprompt.proposers.language import LmProposer
from evoprompt.proposers.published import EvoPromptGA
from evoprompt.proposers.reflection import Reflection
from evoprompt.roles import BuildContext

pytestmark = pytest.mark.lm

LM = {"model": "openai/scripted"}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


@pytest.mark.parametrize(
    "name", ["reflection", "paraphrase", "history", "guo2024-ga", "guo2024-de"]
)
def test_a_configuration_names_every_lm_proposer(name: str) -> None:
    proposer = build("proposer", {"name": name, "lm": LM, "background": False, "max_words": 50})
    assert isinstance(proposer, LmProposer)
    assert proposer.name == name
    assert proposer.max_words == 50
    assert proposer.language.settings == LmSettings(model="openai/scripted")


def test_lm_proposers_think_in_the_background_unless_told_not_to() -> None:
    proposer = build("proposer", {"name": "reflection", "lm": LM})
    assert isinstance(proposer, Background)
    assert isinstance(proposer.inner[0], Reflection)


def test_a_mixture_lends_its_model_and_runs_as_one(tmp_path: Path) -> None:
    own = {"model": "openai/other"}
    proposer = build(
        "proposer",
        {
            "name": "mixture",
            "lm": LM,
            "proposers": ["reflection", {"name": "paraphrase", "lm": own}],
        },
        BuildContext(directory=tmp_path),
    )
    assert isinstance(proposer, Background)
    assert isinstance(proposer.inner[0], Mixture)
    first, second = proposer.inner[0].proposers.values()
    assert isinstance(first, LmProposer)
    assert isinstance(second, LmProposer)
    assert first.language.settings.model == "openai/scripted"
    assert second.language.settings.model == "openai/other"
    assert first.language.spending is second.language.spending


def test_a_selector_is_named_like_any_other() -> None:
    settings = {
        "name": "guo2024-ga",
        "lm": LM,
        "background": False,
        "selector": {"name": "deap", "operator": "tournament", "arguments": {"tournsize": 2}},
    }
    proposer = build("proposer", settings)
    assert isinstance(proposer, EvoPromptGA)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"name": "reflection"}, "lm is missing"),
        ({"name": "reflection", "lm": {**LM, "api_key": "sk-secret"}}, "lm.api_key"),
        ({"name": "mixture", "proposers": []}, "proposers"),
        (
            {"name": "mixture", "lm": LM, "proposers": [{"name": "history"}] * 2},
            "'history' twice",
        ),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        build("proposer", settings)
    assert "sk-secret" not in str(caught.value)


def test_an_unknown_fallback_is_named() -> None:
    with pytest.raises(PluginError, match="sentence-edti"):
        build("proposer", {"name": "reflection", "lm": LM, "fallback": {"name": "sentence-edti"}})
