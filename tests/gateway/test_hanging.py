"""A gateway answers its agents while a proposer hangs, and says what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hanging import Hang, hanging

from evoprompt import (
    Engine,
    EngineConfig,
    EvopromptWarning,
    Proposal,
    ProposalRequest,
    Proposer,
    Question,
)
from evoprompt.gateway.conversations import Conversations
from evoprompt.gateway.settings import GatewaySettings


class SlowWriter(Proposer):
    """Hangs until it is named."""

    def __init__(self) -> None:
        self.hang: Hang | None = None

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        assert self.hang is not None
        self.hang.wait()
        return [Proposal.of("Answer fast.", request.parents[0].candidate)]


class LeavingWriter(Proposer):
    """Ends the process."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
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
    writer = SlowWriter()
    gateway = opened(tmp_path, writer)
    with hanging("the proposer SlowWriter", gateway.engine.log) as hang:
        writer.hang = hang
        visit(gateway, 4)
        hang.wait()
    assert len(hang.lines) == 1
    assert gateway.engine.step == 4
    gateway.close()


def test_an_exit_of_a_proposer_fails_a_generation(tmp_path: Path) -> None:
    gateway = opened(tmp_path, LeavingWriter())
    with pytest.warns(EvopromptWarning, match="the proposer LeavingWriter .*SystemExit: 0"):
        visit(gateway, 2)
    assert gateway.engine.step == 2
    with pytest.warns(EvopromptWarning, match="nothing evolved"):
        gateway.close()
