"""A gateway answers its agents while a proposer hangs, and says what it waits for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hanging import Hang, hanging
from optimizing import Writes

from evoprompt import (
    Engine,
    EngineConfig,
    EvopromptWarning,
    ProposalRequest,
    Proposer,
    Question,
)
from evoprompt.gateway.conversations import Conversations
from evoprompt.gateway.settings import GatewaySettings

held: list[Hang] = []


def write_slowly(request: ProposalRequest) -> str:
    held[-1].wait()
    return "Answer fast."


def leave(request: ProposalRequest) -> str:
    raise SystemExit(0)


def engine(proposer: Proposer) -> Engine:
    config = EngineConfig(
        evolve_every=1, accept="all", fill_at_start=False, candidates_per_question=1
    )
    return Engine(["Answer."], proposer=proposer, config=config, rules=[])


def visit(gateway: Conversations, steps: int) -> None:
    """Ends steps of one group with two conversations."""
    for step in range(steps):
        question = Question(f"q{step}", "What is 2 + 2?")
        for number in range(2):
            key = gateway.conversation(question, f"g{step}", f"{step}.{number}")
            with gateway.calling(key):
                gateway.record_answer(key, "", "4")
        for number in range(2):
            gateway.reward(f"{step}.{number}", float(number))


def opened(folder: Path, proposer: Proposer) -> Conversations:
    settings = GatewaySettings(
        upstream="http://127.0.0.1:9/v1", directory=folder, rollouts=2, groups=1
    )
    return Conversations(engine(proposer), settings)


def test_a_proposer_that_hangs_is_named_and_delays_nothing(tmp_path: Path) -> None:
    gateway = opened(tmp_path, Writes(write_slowly))
    with hanging("the proposer Writes", gateway.engine.log) as hang:
        held.append(hang)
        visit(gateway, 4)
        hang.wait()
    assert len(hang.lines) == 1
    assert gateway.engine.step == 4
    gateway.close()


def test_an_exit_of_a_proposer_fails_a_generation(tmp_path: Path) -> None:
    gateway = opened(tmp_path, Writes(leave))
    with pytest.warns(EvopromptWarning, match="the proposer Writes .*SystemExit: 0"):
        visit(gateway, 2)
    assert gateway.engine.step == 2
    with pytest.warns(EvopromptWarning, match="nothing evolved"):
        gateway.close()
