from pathlib import Path

import pytest
from optimizing import Writes

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.experiments.check import generations_within
from evoprompt.lm import Estimate, LanguageModel, LmSettings
from evoprompt.proposers.reflection import Reflection
from evoprompt.roles import ProposalRequest
from evoprompt.testing.fakes import FakeTrainer, ScriptedPolicy
from evoprompt.testing.samples import question


def test_an_unknown_price_makes_the_sum_unknown() -> None:
    assert Estimate(1, 10, 0.5) + Estimate(2, 20, 0.25) == Estimate(3, 30, 0.75)
    assert (Estimate(1, 10, 0.5) + Estimate(2, 20, None)).usd is None


def test_the_papers_run_has_eleven_generations() -> None:
    # App. C: ten evolutions, and the first population
    assert generations_within(EngineConfig(preset="inspo"), 768_000, 2_560, 1_400) == 11
    config = EngineConfig(evolve_every=10, evolve_until=95)
    assert generations_within(config, 10_000, 8, 0) == 9


@pytest.mark.parametrize("budget", [1, 40, 41, 48, 200, 1000])
@pytest.mark.parametrize(("until", "start"), [(None, False), (12, True)])
def test_a_forecast_counts_the_generations_that_a_training_makes(
    budget: int, until: int | None, start: bool
) -> None:
    asked = 0

    def write(request: ProposalRequest) -> str:
        nonlocal asked
        asked += 1
        return f"Way {asked} of {budget}: be brief."

    config = EngineConfig(
        population_size=2,
        evolve_every=5,
        evolve_until=until,
        verify_questions=2,
        verify_rounds=1,
        fill_at_start=start,
        accept="not-worse",
    )
    engine = Engine(["Be brief."], proposer=Writes(write), config=config)
    trainer = FakeTrainer(ScriptedPolicy(lambda _: 0.0), [question(n) for n in range(4)], 2)
    while engine.rollouts < budget:
        trainer.train(engine, 1)
    verification = engine.verification_rollouts // max(asked - start, 1)
    assert generations_within(config, budget, 8, verification) == asked


@pytest.mark.lm
def test_what_the_documentation_says_of_the_papers_run_is_what_is_forecast() -> None:
    config = EngineConfig(preset="inspo")
    writer = Reflection(LanguageModel(LmSettings(model="openai/gpt-5-mini")))
    engine = Engine(["Be brief."], proposer=writer, config=config)
    generations = engine.generations
    rounds, scale = generations.most_rounds(engine.waits), generations.scale()
    places = config.population_size - config.parents
    proposals = engine.requests.count_proposals(places, 1, rounds, scale)
    expected = str(writer.estimate(11, proposals, config.parents))
    docs = Path(__file__).parents[2] / "docs"
    assert f"`{expected}` for `gpt-5-mini`" in (docs / "proposers.md").read_text("utf-8")
    calls_and_tokens = expected.removeprefix("about ").rpartition(",")[0]
    assert f"| {calls_and_tokens};" in (docs / "reference" / "search-qa.md").read_text("utf-8")
