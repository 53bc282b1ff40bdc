"""Who keeps training waiting is announced while it waits; the log does not depend on the clock."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from waiting import PATIENCE

from evoprompt import EvopromptWarning
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.engine.patience import told_after
from evoprompt.events import Event, Notice
from evoprompt.proposers.background import Background
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.testing import FakeTrainer, ScriptedPolicy
from evoprompt.types import Proposal

SEED = "Write <answer>the sum</answer>."
POLICY = ScriptedPolicy(lambda assignment: float(assignment.question.id.endswith("1")))


class Slow:
    """Answers when it is let."""

    def __init__(self, *, let: bool = False) -> None:
        self.let = threading.Event()
        if let:
            self.let.set()

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        assert self.let.wait(PATIENCE)
        return [Proposal.of("Think first. Write <answer>the sum</answer>.")]


def build(proposer: Proposer, patience: float = 0.02) -> tuple[Engine, list[Event]]:
    config = EngineConfig(
        evolve_every=2, verify_rounds=1, population_size=2, patience=patience, prune_every=100
    )
    engine = Engine([SEED], proposer=proposer, config=config)
    shown: list[Event] = []
    engine.log.subscribe(shown.append)
    return engine, shown


def test_a_proposer_that_training_waits_for_is_announced_while_it_blocks() -> None:
    slow = Slow()
    engine, shown = build(slow)
    engine.log.subscribe(lambda event: slow.let.set() if "answered" in str(event) else None)
    with pytest.warns(EvopromptWarning, match=r"proposer Slow of .* has not answered for 0\.02 s"):
        FakeTrainer(POLICY).train(engine, 3)
    (notice,) = [event for event in shown if isinstance(event, Notice)]
    assert "at step 2, and training waits for it" in notice.message
    assert not [event for event in engine.log if event["event"] == "notice"]
    assert len(engine.population.alive) == 2


def test_a_thought_in_the_background_is_announced_once() -> None:
    slow = Slow()
    engine, shown = build(Background(slow), patience=1e-9)
    trainer = FakeTrainer(POLICY)
    trainer.train(engine, 1)
    with pytest.warns(EvopromptWarning, match="has been thinking in the background"):
        trainer.train(engine, 4)
    slow.let.set()
    said = [e for e in shown if isinstance(e, Notice) and "in the background" in e.message]
    assert len(said) == 1
    assert engine.step == 5


def test_a_quick_one_is_not() -> None:
    engine, shown = build(Slow(let=True), patience=PATIENCE)
    FakeTrainer(POLICY).train(engine, 3)
    assert not [event for event in shown if isinstance(event, Notice)]


def test_nothing_is_told_after_the_end() -> None:
    told: list[str] = []
    before = set(threading.enumerate())
    with told_after(PATIENCE, lambda: told.append("late")):
        (timer,) = set(threading.enumerate()) - before
    timer.join()
    assert told == []
