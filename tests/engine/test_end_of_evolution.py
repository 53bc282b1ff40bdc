"""Evolution has no end by default; where a setting ends it, the log says so."""

from __future__ import annotations

from typing import Any

import pytest
from optimizing import Writes

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest
from evoprompt.testing.samples import question
from evoprompt.types import Trajectory

QUESTIONS = [question(number) for number in range(4)]


def train(steps: int, **settings: Any) -> tuple[Engine, list[int]]:
    """Trains on rewards that alternate, so that proposals are decided soon.

    Returns:
        The engine, and the steps at which its proposer was asked.
    """
    asked: list[int] = []

    def write(request: ProposalRequest) -> str:
        asked.append(request.step)
        return f"Answer in way {request.step}."

    config = EngineConfig(**settings)
    engine = Engine(["Answer."], proposer=Writes(write), config=config, rules=[])
    each = engine.divide_rollouts(4, "num_generations")
    for step in range(steps):
        engine.tell(
            [
                Trajectory(a, float((step + place + n) % 2), n)
                for place, a in enumerate(engine.ask(QUESTIONS, each))
                for n in range(each)
            ]
        )
        engine.evolve(lambda assignments: [Trajectory(a, 1.0) for a in assignments])
    return engine, asked


def notices_of_the_end(engine: Engine) -> list[str]:
    return [
        event["message"]
        for event in engine.log
        if event["event"] == "notice" and event["message"].startswith("evolution ends")
    ]


def test_the_default_proposes_after_the_150_steps_of_the_paper() -> None:
    engine, asked = train(200)
    assert max(asked) > 150
    assert notices_of_the_end(engine) == []


@pytest.mark.parametrize("settings", [{"evolve_until": 6}, {"preset": "inspo", "evolve_until": 6}])
def test_a_set_end_stops_proposals_and_is_in_the_log_once(settings: dict[str, Any]) -> None:
    engine, asked = train(12, evolve_every=3, **settings)
    assert max(asked) <= 6
    (message,) = notices_of_the_end(engine)
    pruning = "; pruning goes on every 5 steps" if "preset" in settings else ""
    assert message == (
        "evolution ends: evolve_until is 6, so no instruction is proposed after this step"
        f"{pruning}; set evolve_until to null to evolve to the end"
    )


def test_the_preset_inspo_states_the_step_of_the_paper() -> None:
    assert EngineConfig(preset="inspo").evolve_until == 150
