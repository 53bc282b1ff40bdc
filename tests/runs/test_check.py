from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from contract_runs import RandomWords

from evoprompt.agents.tasks import Need, Plan
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.experiments.check import check, forecast_run
from evoprompt.experiments.config import RunConfig
from evoprompt.hosting.binding import Binding
from evoprompt.lm import SpendTracker
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError

pytestmark = pytest.mark.usefixtures("fake_task")
MODEL = Need("model", "all here")


def config(**changes: Any) -> RunConfig:
    usual: Mapping[str, Any] = {
        "task": "fake",
        "host": {"name": "planned"},
        "engine": {"proposer": "fake", "population_size": 4, "verify_questions": 10},
        "budget": 80,
        "evaluate_every": 40,
    }
    return RunConfig.model_validate({**usual, **changes})


def test_what_every_arm_would_do_is_known_without_building_a_trainer() -> None:
    found = check(
        config(
            seeds=[0, 2],
            arms={
                "static": None,
                "long": {"budget": 800, "engine": {"proposer": "fake", "accept": "not-worse"}},
                "free": {"budget": 800},
            },
        ),
        SpendTracker(),
    )
    assert found.seeds == 2
    (model,) = found.needs
    assert model == MODEL
    static, long, free = found.arms
    assert (static.budget, static.generations, static.verification) == (80, 0, 0)
    # Six proposals and their parent, ten questions each, after 15 steps of 8 rollouts.
    assert (long.budget, long.generations, long.verification) == (800, 4, 10 * (6 + 1))
    # Verified in training, which takes ten steps or so.
    assert (free.budget, free.generations, free.verification) == (800, 9, 0)
    assert ("rollouts a step", "8") in long.plan.figures
    # Steps are whole, and verification may take all that the budget leaves before the last one.
    assert [one.rollouts for one in found.arms] == [80, 808, 800]
    assert replace(static, budget=81).rollouts == 88
    assert found.rollouts == 2 * (80 + 808 + 800)


@pytest.mark.parametrize(
    ("verifier", "most"),
    [
        ({"name": "replay-top-n", "questions": 9}, 9 * (6 + 1)),
        ({"name": "replay-top-n", "questions": 9, "accept": "top"}, 9 * 6),
        # A fifth of fifteen steps is 24 rollouts; no verification has fewer than ten questions.
        ({"name": "replay-top-n", "questions": 30}, 10 * (6 + 1)),
        ({"name": "unverified"}, 0),
    ],
)
def test_a_verifier_states_its_rollouts_within_the_share_of_a_generation(
    verifier: dict[str, object], most: int
) -> None:
    given = {"population_size": 4, "proposer": "fake", "verifier": verifier}
    found = forecast_run(config(arms={"one": {"engine": given}}, seeds=[0]))
    assert [arm.verification for arm in found.arms] == [most]


def test_the_dry_run_knows_the_size_of_a_step_and_an_attached_engine_states_the_share(
    caplog: pytest.LogCaptureFixture,
) -> None:
    section = {"proposer": "fake", "accept": "not-worse"}
    (arm,) = forecast_run(config(engine=section, arms={"one": None}, seeds=[0])).arms
    numbers = EngineConfig(accept="not-worse")
    engine = Engine(["be brief"], proposer=RandomWords(), config=numbers)
    bound = Binding(engine, SimpleNamespace())
    with caplog.at_level("INFO", logger="evoprompt"):
        bound.log_plan()
    assert arm.verification == 10 * (12 + 1)
    assert caplog.messages[-1].endswith(  # five rounds; the size of a step is not known yet
        f"at most {200 * (12 + 1) * 5:,} rollouts of verification, and a fifth of the training's"
    )


def test_rollouts_that_candidates_cannot_share_are_found_before_the_first_arm_trains() -> None:
    def side_by_side(candidates: int) -> RunConfig:
        engine = {"candidates_per_question": candidates}
        return config(arms={"static": None, "blocks": {"engine": engine}}, seeds=[0])

    assert check(side_by_side(2), SpendTracker()).missing == ()
    with pytest.raises(InputError, match=r"host\.rollouts_per_question is 4 with"):
        check(side_by_side(3), SpendTracker())


def test_a_wrong_setting_of_a_host_that_plans_nothing_is_found() -> None:
    assert [arm.plan for arm in forecast_run(config(host="fake")).arms] == [Plan(), Plan()]
    with pytest.raises(InputError, match="did you mean 'learning_rate'"):
        forecast_run(config(host={"name": "fake", "learning_rat": 1}))


@pytest.mark.lm
def test_the_key_of_a_language_model_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    proposer = {"name": "reflection", "lm": "openai/gpt-5-mini"}
    asking = config(engine={"proposer": proposer})
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (need,) = forecast_run(asking).missing
    assert need.subject == "proposer"
    assert need.text == "openai/gpt-5-mini: no OPENAI_API_KEY in the environment"
    assert "export OPENAI_API_KEY=" in need.remedy
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert not forecast_run(asking).missing
    assert forecast_run(asking).language.calls == 0  # ten steps: evolution is never due
    longer = config(engine={"proposer": proposer}, budget=1600)
    assert forecast_run(longer).language.calls > 0
    monkeypatch.delenv("OPENAI_API_KEY")
    own = {"model": "openai/x", "api_base": "http://127.0.0.1:1"}  # which needs no key
    found = forecast_run(config(engine={"proposer": {"name": "reflection", "lm": own}}))
    assert found.needs[:2] == (MODEL, Need("proposer", "reflection can be asked"))


@pytest.mark.lm
def test_without_a_sentence_bank_the_usual_proposer_says_at_once_what_to_choose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    usual = {"population_size": 4, "verify_questions": 10}  # and no proposer
    with pytest.raises(InputError, match="bank, and FakeTask has none; required: ") as refused:
        forecast_run(config(engine=usual))
    said = re.search(
        r"engine\.proposer: (.*?), or train without .*, arms: (.*)", str(refused.value)
    )
    assert said is not None
    proposer, arms = (yamlfile.parse(one, "the remedy") for one in said.groups())
    found = forecast_run(config(engine={**usual, "proposer": proposer}))  # as the message says
    assert Need("proposer", "reflection can be asked") in found.needs
    assert not forecast_run(config(engine=usual, arms=arms)).missing
