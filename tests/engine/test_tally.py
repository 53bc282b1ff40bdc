"""Failed generations are warned of, counted and told in the log; refused ones are counted apart."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence

import pytest

from evoprompt import EvopromptWarning
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.testing import FakeTrainer, ScriptedPolicy
from evoprompt.types import Proposal

SEED = "Write <answer>the sum</answer>."
POLICY = ScriptedPolicy(lambda assignment: 0.0)
Answer = Callable[[ProposalRequest], Sequence[Proposal]]


def failing(request: ProposalRequest) -> Sequence[Proposal]:
    raise RuntimeError("no key")


def silent(request: ProposalRequest) -> Sequence[Proposal]:
    return []


def malformed(request: ProposalRequest) -> Sequence[Proposal]:
    return [Proposal.of("Just add.")]


def good(request: ProposalRequest) -> Sequence[Proposal]:
    return [Proposal.of(f"Think of trick {request.step}, then write <answer>the sum</answer>.")]


class Scripted(Proposer):
    """Answers each request by the next of ``answers``; the last one answers all that follow."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(request)


def build(*answers: Answer) -> Engine:
    """One generation a step, of one round each."""
    config = EngineConfig(
        evolve_every=1,
        verify_rounds=1,
        verify_questions=2,
        population_size=4,
        accept="not-worse",
    )
    return Engine([SEED], proposer=Scripted(*answers), config=config, required=["<answer>"])


def train(engine: Engine, generations: int) -> list[str]:
    """What is warned of in so many generations."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(generations):
            FakeTrainer(POLICY).train(engine, 1)
            engine.waits = True  # or a thread that is slow to answer would miss its generation
            engine.evolve(POLICY)
    assert {warning.category for warning in caught} <= {EvopromptWarning}
    return [str(warning.message) for warning in caught]


def counts(engine: Engine) -> list[float]:
    names = ("generations", "generations_failed", "generations_refused")
    return [engine.metrics()[name] for name in (*names, "proposer_failures", "admitted_total")]


@pytest.mark.parametrize(
    ("answer", "why", "raised"),
    [
        (failing, "the proposer failed (RuntimeError: no key)", 4),
        (silent, "the proposer proposed nothing", 0),
        (malformed, "screening refused all 1: lost tag <answer> (1)", 0),
    ],
)
def test_the_first_failure_and_the_third_in_a_row_are_warned_of(
    answer: Answer, why: str, raised: int
) -> None:
    engine = build(answer)
    told = f"{why}; training goes on under the instructions it has"
    assert train(engine, 4) == [
        f"the generation at step 1 failed: {told}",
        f"3 generations in a row failed, the last at step 3: {told}",
    ]
    assert counts(engine) == [4, 4, 0, raised, 0]
    assert engine.generation_stats.all_failed
    assert [e["failure"] for e in engine.log if e["event"] == "evolved"] == [why] * 4


def test_a_success_ends_the_row() -> None:
    engine = build(failing, failing, good, failing, failing, failing)
    messages = train(engine, 6)
    assert [message.split(":")[0] for message in messages] == [
        "the generation at step 1 failed",
        "3 generations in a row failed, the last at step 6",
    ]
    assert counts(engine) == [6, 5, 0, 5, 1]
    assert not engine.generation_stats.all_failed


def test_a_generation_that_verification_refuses_is_no_failure() -> None:
    policy = ScriptedPolicy(lambda a: 1.0 if a.candidate.text == SEED else 0.0)
    engine = build(good)
    FakeTrainer(policy).train(engine, 1)
    report = engine.evolve(policy)
    assert (report.admitted, report.failure) == ((), "")
    assert counts(engine) == [1, 0, 1, 0, 0]


def test_counts_and_rows_go_on_after_a_resume() -> None:
    whole, first, second = build(failing), build(failing), build(failing)
    train(first, 2)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    (message,) = train(second, 1)
    assert message.startswith("3 generations in a row failed")
    train(whole, 3)
    assert second.metrics() == whole.metrics()
    assert second.generation_stats == whole.generation_stats
