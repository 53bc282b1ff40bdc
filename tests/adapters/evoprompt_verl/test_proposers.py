"""The language models that the veRL guides show on the command line answer, and are asked first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from evoprompt_verl import preflight
from evoprompt_verl.settings import VerlSettings
from omegaconf import DictConfig, OmegaConf
from provider import openai, rewriting

from evoprompt.errors import InputError
from evoprompt.testing.fakes import FakeTrainer, ScriptedPolicy

pytestmark = pytest.mark.lm

DOCS = Path(__file__).parents[3] / "docs"
SHOWN = sorted(
    {
        found
        for page in DOCS.glob("*.md")
        for found in re.findall(r"'(evoprompt\.proposer=\{.*?\}\})'", page.read_text("utf-8"))
    }
)
BETTER = "Use the tools twice, then answer."


def proposer_of(override: str) -> dict[str, Any]:
    """What hydra makes of the override."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    value = OverridesParser.create().parse_override(override).value()
    assert isinstance(value, dict)
    return value


def test_the_guides_show_models() -> None:
    assert len(SHOWN) >= 2


@pytest.mark.parametrize("override", SHOWN)
def test_the_proposer_shown_reaches_the_population(override: str) -> None:
    section = {"proposer": proposer_of(override), "instructions": ["Use the tools."]}
    with openai(rewriting(BETTER)):
        config = OmegaConf.create({"evoprompt": {"preset": "inspo", **section}})
        engine = VerlSettings.of(config).build_engine()
        engine.check(probe=True)
        policy = ScriptedPolicy(lambda one: float("twice" in one.candidate.text))
        FakeTrainer(policy).train(engine, 15)
        engine.waits = True
        engine.evolve(policy)
    assert any(one.text.startswith(BETTER) for one in engine.population.alive)


def test_the_preflight_asks_the_model_once(
    sound: DictConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    OmegaConf.update(sound, "evoprompt.proposer", proposer_of(SHOWN[0]))
    with openai(rewriting(BETTER)) as server:
        preflight.check_run(sound)
        assert len(server.requests) == 1
    with openai("ready") as server:
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(InputError, match="no OPENAI_API_KEY"):
            preflight.check_run(sound)
        assert server.requests == []
