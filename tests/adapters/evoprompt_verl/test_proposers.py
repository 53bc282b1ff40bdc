"""The language models that the veRL guides show on the command line answer, and are asked first."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evoprompt_verl import hydra_entry, preflight, probing
from evoprompt_verl.hydra_entry import EvolvingAgentLoopManager, Preflight
from omegaconf import DictConfig
from provider import openai, rewriting

from evoprompt.engine import Engine
from evoprompt.lm.budget import SPENDING_FILE, SpendTracker
from evoprompt.support.errors import InputError

pytestmark = pytest.mark.lm

Changed = Callable[[Mapping[str, object]], DictConfig]

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


def test_the_preflight_asks_the_model_once(
    changed: Changed, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = changed({"evoprompt.proposer": proposer_of(SHOWN[0])})
    with openai(rewriting(BETTER)) as server:
        spent = preflight.check_run(config)
        assert len(server.requests) == sum(charge.calls for charge in spent.values()) == 1
    with openai("ready") as server:
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(InputError, match="no OPENAI_API_KEY"):
            preflight.check_run(config)
        assert server.requests == []


class Manager:
    """An agent loop manager that is never asked."""

    @classmethod
    def create(cls, **clients: object) -> Manager:
        return cls()

    def generate_sequences(self, prompts: object) -> None: ...


def test_every_call_before_the_first_step_is_in_the_journal(
    changed: Changed, trainers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(probing.SPENT, "{}")  # so that what the preflight sets is undone
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Manager.__module__])
    monkeypatch.setattr(trainers, "fit", lambda trainer, agent_loop_manager: None)
    # As the adapter does it when it attaches to a trainer.
    monkeypatch.setattr(hydra_entry, "attach", attached := Attached())
    config = changed(
        {
            "evoprompt.proposer": proposer_of(SHOWN[0]),
            "evoprompt.agent_loop_manager_class": f"{__name__}.Manager",
            "trainer.default_local_dir": str(tmp_path),
        }
    )
    for resumed, calls in ((0, 2), (15, 1)):  # of the command, and of the task runner
        with openai("ready") as server:
            Preflight().on_run_start(config)
            manager: Any = EvolvingAgentLoopManager.create(config=config)
            trainers.fit(SimpleNamespace(config=config, global_steps=resumed), manager)
        assert len(server.requests) == calls
    journal = tmp_path / f"evoprompt_events-{SPENDING_FILE}"
    assert SpendTracker(journal).spent.calls == 3
    assert attached.times == 2


class Attached:
    """In the place of ``attach``: asks the language models as it does; starts nothing."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, trainer: object, engine: Engine, **settings: object) -> Attached:
        engine.check(probe=True)
        self.times += 1
        return self

    def start(self, manager: object) -> None: ...

    def report_end(self) -> str:
        return ""
