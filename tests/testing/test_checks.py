from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from evoprompt import Selector, hookimpl, named
from evoprompt.components import BuildContext, Component
from evoprompt.experiments.testing import SUITES
from evoprompt.plugins import Plugins, PluginSource, installed_sources
from evoprompt.selectors import Softmax
from evoprompt.support.errors import InputError, PluginError
from evoprompt.testing import OpenAIServer, check
from evoprompt.testing.checks import checking
from evoprompt.testing.openai_server import chat_fields
from evoprompt.types import CandidateStats

BUILT_IN = Plugins(
    [source for source in installed_sources() if source.name in ("builtins", "experiments")]
)
SETTINGS: dict[str, dict[str, object]] = {
    "frozen": {"model": "openai:gpt-5-mini"},
    "questions": {"data": "questions.jsonl", "prompt": "prompt.txt"},
}
NEED_AN_EXTRA = {"ray", "slurm", "verl"}
"""Not in the quick loop, which has the core alone."""


def available(component: type[Component]) -> Plugins:
    @hookimpl
    def evoprompt_components() -> list[tuple[str, type[Component]]]:
        return [named("own", component)]

    plugin = ModuleType("plugin")
    vars(plugin)["evoprompt_components"] = evoprompt_components
    return Plugins([PluginSource("mine", "my-plugin", "1.0", lambda: plugin)])


@pytest.mark.parametrize(
    ("role", "name"),
    [
        pytest.param(
            *(found.component.role, found.name),
            marks=[pytest.mark.slow] if found.name in NEED_AN_EXTRA else [],
        )
        for found in BUILT_IN.components()
        if not getattr(found.component, "slow", False)
    ],
)
def test_every_built_in_component_passes(
    role: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prompt.txt").write_text("Answer with a number.")
    sums = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(12)]
    Path("questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in sums))
    settings = {"name": name, **SETTINGS.get(name, {})}
    results = list(checking(role, settings, BUILT_IN, suites=SUITES))
    assert [result for result in results if not result.passed] == []
    assert len(results) >= 4


def answer(body: Mapping[str, Any]) -> str:
    """New instructions, different for every prompt."""
    size = len(str(body))
    texts = [f"Add twice, way {size}-{n}: write <answer>the sum</answer>." for n in range(12)]
    return chat_fields(analysis="haste", candidates=texts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        found.name
        for found in BUILT_IN.components("proposer")
        if getattr(found.component, "slow", False)
    ],
)
@pytest.mark.lm
def test_every_built_in_proposer_that_asks_an_lm_passes(name: str) -> None:
    with OpenAIServer(default=answer) as server:
        lm = {"model": "openai/scripted", "api_base": server.url, "retries": 0}
        results = check("proposer", {"name": name, "lm": lm, **SETTINGS.get(name, {})})
    assert [result for result in results if not result.passed] == []


def test_every_role_has_a_suite() -> None:
    assert set(SUITES) >= {one.component.role for one in BUILT_IN.components()}


def test_one_that_shares_an_object_says_nothing_and_ignores_misspelt_settings() -> None:
    shared = Softmax()

    class Shared(Softmax):
        class Settings(BaseModel):
            temperature: float = 0.2

        @classmethod
        def build(cls, settings: object, context: BuildContext) -> Softmax:
            return shared

    assert failing("selector", Shared) == {
        "describes itself in one line",
        "refuses settings it does not know",
        "builds a new object each time",
    }


def test_wrong_settings_and_unknown_names_are_errors_not_results() -> None:
    with pytest.raises(InputError, match="temperature is -1"):
        check("selector", {"name": "softmax", "temperature": -1}, available=BUILT_IN)
    with pytest.raises(PluginError, match="unknown selector 'softmix'"):
        check("selector", {"name": "softmix"}, available=BUILT_IN)
    with pytest.raises(InputError, match=r"role is 'task'; .* evoprompt\.experiments\.testing"):
        check("task", {"name": "own"})


class Own(Selector):
    """Draws from a generator of its own."""

    def __init__(self) -> None:
        self.rng = random.Random(0)

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        return self.rng.choices(candidate_stats, k=k)


class Global(Own):
    """Draws from NumPy's global generator."""

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        return [candidate_stats[np.random.randint(len(candidate_stats))] for _ in range(k)]


def failing(role: str, component: type[Component]) -> set[str]:
    plugins = available(component)
    return {one.name for one in check(role, {"name": "own"}, available=plugins) if not one.passed}


@pytest.mark.parametrize(
    ("component", "found"),
    [
        (Own, "answers alike however often it was used before"),
        (Global, "draws only from the generator handed in"),
    ],
)
def test_a_component_that_draws_from_another_generator_is_found_out(
    component: type[Component], found: str
) -> None:
    before = np.random.get_state()
    try:
        assert found in failing("selector", component)
    finally:
        np.random.set_state(before)
