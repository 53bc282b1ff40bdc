"""The proposer of every shipped configuration answers, and evolves, under the name it is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from provider import openai, rewriting

from evoprompt.engine import Engine
from evoprompt.experiments.config import load
from evoprompt.plugins import build
from evoprompt.roles import BuildContext
from evoprompt.testing.fakes import FakeTrainer, SampleTask, ScriptedPolicy

pytestmark = pytest.mark.lm

FOLDER = Path(__file__).parents[1]
ASKING = sorted(path.name for path in FOLDER.glob("*.yaml") if "lm:" in path.read_text("utf-8"))
BETTER = "Write <answer> and </answer> around the sum. Check it twice."


def test_the_recipes_for_gpus_are_among_them() -> None:
    assert sum(name.startswith("qwen2.5") for name in ASKING) == 5


@pytest.mark.parametrize("name", ASKING)
def test_the_proposer_of_a_recipe_reaches_the_population(tmp_path: Path, name: str) -> None:
    section = load(FOLDER / name).engine_of("coevolve")
    task = SampleTask()
    with openai(rewriting(BETTER)) as server:
        assert section.proposer is not None
        lm = section.proposer["lm"]
        assert isinstance(lm, dict)
        if lm.get("api_base"):
            lm["api_base"] = server.url
        engine = Engine(
            task.seed_instructions,
            config=section.numbers,
            required=task.required,
            proposer=build("proposer", section.proposer, BuildContext(task, tmp_path)),
        )
        engine.check(probe=True)
        policy = ScriptedPolicy(lambda one: float("twice" in one.candidate.text))
        trainer = FakeTrainer(policy)
        for _ in range(section.evolve_every):
            trainer.train(engine, 1)
        engine.waits = True
        engine.evolve(policy)
        assert str(lm["model"]).partition("/")[2] in {one.body["model"] for one in server.requests}
    alive = engine.population.alive
    assert any(one.proposer == "reflection" and one.text.startswith(BETTER) for one in alive)
    assert bool(list(tmp_path.iterdir())) == ("record" in lm)
