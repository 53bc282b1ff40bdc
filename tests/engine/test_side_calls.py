"""A proposer whose notices, metrics, feedback or foresight fail costs nothing but a warning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from evoprompt import EvopromptWarning
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest
from evoprompt.testing import FakeTrainer, ScriptedPolicy
from evoprompt.types import Proposal, VerificationResult

POLICY = ScriptedPolicy(lambda assignment: 0.0)


class Clumsy:
    """Proposes well, and fails at everything else."""

    ready = True

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return [Proposal.of(f"Think of trick {request.step} and write the sum.")]

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        raise RuntimeError("deaf")

    def notices(self) -> Sequence[str]:
        raise RuntimeError("dumb")

    def metrics(self) -> Mapping[str, float]:
        raise RuntimeError("numb")


class Thoughtless:
    """Cannot begin to think."""

    ready = False

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        raise AssertionError("it was not ready")

    def anticipate(self, request: ProposalRequest) -> None:
        raise RuntimeError("blind")


def build(proposer: Any) -> Engine:
    config = EngineConfig(evolve_every=2, verify_questions=2, verify_rounds=1)
    return Engine(["Write the sum."], proposer=proposer, config=config)


def trained(engine: Engine) -> Mapping[str, float]:
    FakeTrainer(POLICY).train(engine, 9)
    engine.metrics()
    return engine.metrics()


def test_each_failure_is_told_once_and_training_goes_on() -> None:
    engine = build(Clumsy())
    with pytest.warns(EvopromptWarning) as caught:
        numbers = trained(engine)
    told = sorted(str(warning.message).partition(" of")[0] for warning in caught)
    assert told == ["feedback", "metrics", "notices"]
    assert numbers["admitted_total"] > 0
    assert not [name for name in numbers if name.startswith("proposer/")]


def test_a_thought_that_cannot_begin_is_told() -> None:
    engine = build(Thoughtless())
    with pytest.warns(EvopromptWarning, match=r"anticipate of the proposer failed, .* blind"):
        FakeTrainer(POLICY).train(engine, 5)
    assert engine.step == 5
    assert engine.fruitless == "the proposer was asked and never answered"


@pytest.mark.filterwarnings("ignore::evoprompt.errors.EvopromptWarning")
def test_what_was_told_is_not_told_again_after_a_resume() -> None:
    whole, first, second = (build(Clumsy()) for _ in range(3))
    FakeTrainer(POLICY).train(whole, 9)
    FakeTrainer(POLICY).train(first, 5)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    FakeTrainer(POLICY).train(second, 4)
    assert [*first.log, *list(second.log)[1:]] == list(whole.log)
