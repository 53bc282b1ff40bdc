"""New candidates are tried in training: drawn first, and decided by evidence at no extra cost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.errors import EvopromptWarning
from evoprompt.eventlog import EventLog
from evoprompt.events import Event, Notice, Pruned, Verified
from evoprompt.roles import ProposalRequest
from evoprompt.testing import FakeTrainer, ScriptedPolicy
from evoprompt.testing.samples import question
from evoprompt.types import Assignment, Proposal, Trajectory, Verification, VerificationResult
from evoprompt.verifiers import Probation

QUESTIONS = [question(number) for number in range(12)]


class Numbered:
    """Proposes texts of which every second one is good, and learns what became of them."""

    def __init__(self) -> None:
        self.made = 0
        self.taught: list[tuple[str, bool]] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        made = [self._next() for _ in range(request.count)]
        return [Proposal.of(text, request.parents[0].candidate) for text in made]

    def _next(self) -> str:
        self.made += 1
        return f"Trick {self.made} is {'good' if self.made % 2 else 'bad'}."

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        self.taught += [(one.candidate.text, one.admitted) for one in results]


def reward(assignment: Assignment) -> float:
    """Good ones answer three of four questions, the seed two, bad ones one."""
    text = assignment.candidate.text
    return float(
        QUESTIONS.index(assignment.question) % 4
        < (3 if "good" in text else 1 + ("bad" not in text))
    )


POLICY = ScriptedPolicy(reward)


def engine(groups: int = 24, verifier: Probation | None = None, **numbers: Any) -> Engine:
    usual = {"population_size": 5, "evolve_every": 6, "evolve_until": 6, "prune_every": 3}
    return Engine(
        ["Answer."],
        proposer=Numbered(),
        config=EngineConfig(**{**usual, **numbers}),
        verifier=verifier or Probation(groups),
        log=EventLog(),
    )


def train(one: Engine, steps: int) -> None:
    FakeTrainer(POLICY, QUESTIONS).train(one, steps)


def told(one: Engine, kind: type[Event]) -> list[dict[str, Any]]:
    return [event for event in one.log if event["event"] == kind.kind]


def test_nothing_is_spent_and_evidence_decides() -> None:
    one = engine()
    train(one, 6)
    report = one.evolve(POLICY)
    assert (report.rollouts, one.verification_rollouts) == (0, 0)
    assert report.admitted == ("c1", "c2", "c3", "c4")
    assert one.best.id == "c0"
    assert one.metrics()["on_probation"] == 4
    drawn: Counter[str] = Counter()
    while one.metrics()["on_probation"]:
        asked = one.ask(QUESTIONS, 2)
        drawn.update(assignment.candidate.id for assignment in asked)
        one.tell(POLICY(asked))
    assert drawn == dict.fromkeys(["c0", "c1", "c2", "c3", "c4"], 24)
    assert one.step == 6 + 10
    assert [living.id for living in one.population.alive] == ["c0", "c1", "c3"]
    assert one.selection.leader.id in {"c1", "c3"}
    assert (
        one.best.id == "c0"
    )  # who stays is decided; that it is better is not shown by 12 questions
    metrics = one.metrics()
    assert (metrics["probation_kept"], metrics["probation_refused"]) == (2, 2)
    assert one.verification_rollouts == 0


def test_it_is_told_in_events_and_to_the_proposer() -> None:
    one = engine()
    proposer = one.proposer
    assert isinstance(proposer, Numbered)
    train(one, 6)
    one.evolve(POLICY)
    assert proposer.taught == []
    assert "on probation beside c0" in told(one, Notice)[-1]["message"]
    train(one, 10)
    assert dict(proposer.taught) == {
        f"Trick {number} is {'good' if number % 2 else 'bad'}.": bool(number % 2)
        for number in range(1, 5)
    }
    ended = [event for event in told(one, Verified) if event["round"] == 0]
    assert [(event["candidate"], event["admitted"]) for event in ended if not event["parent"]] == [
        ("c1", True),
        ("c2", False),
        ("c3", True),
        ("c4", False),
    ]
    assert [event["candidate"] for event in ended if event["parent"]] == ["c0"]
    assert told(one, Pruned)[-1]["dropped"] == ["c2", "c4"]
    assert "c1, c3 stayed, c2, c4 was turned away" in told(one, Notice)[-1]["message"]


def test_nobody_is_pruned_and_nothing_is_prefetched_before_it_ends() -> None:
    one = engine(groups=10_000, evolve_every=9, evolve_until=9)
    train(one, 9)
    one.evolve(POLICY)
    train(one, 12)
    assert len(one.population.alive) == 5
    assert one.best.id == "c0"
    assert one.conclude() == ""
    assert (
        "training has ended while c1, c2, c3, c4 were on probation"
        in told(one, Notice)[-1]["message"]
    )


def test_a_due_evolution_ends_it_early_and_says_so() -> None:
    one = engine(groups=100, evolve_until=None)
    train(one, 6)
    one.evolve(POLICY)
    train(one, 6)
    one.evolve(POLICY)
    ended = [found["message"] for found in told(one, Notice) if "has ended" in found["message"]]
    assert "up to 86 groups were lacking: train on more questions a step" in ended[0]
    assert one.metrics()["probation_kept"] >= 1


def test_when_all_are_turned_away_the_generation_was_refused() -> None:
    class Bad(Numbered):
        def _next(self) -> str:
            self.made += 1
            return f"Trick {self.made} is bad."

    one = Engine(
        ["Answer."],
        proposer=Bad(),
        config=EngineConfig(population_size=3, evolve_every=4),
        verifier=Probation(8),
    )
    train(one, 8)
    assert [living.id for living in one.population.alive] == ["c0"]
    assert one.metrics()["generations_refused"] == 1
    assert one.metrics()["probation_refused"] == 2


@pytest.mark.parametrize("settings", [{}, {"candidates_per_question": 3}, {"preset": "inspo"}])
def test_a_run_that_is_resumed_goes_on_as_it_would_have(settings: dict[str, Any]) -> None:
    whole, resumed = (engine(evolve_until=None, **settings) for _ in range(2))
    train(whole, 8)
    state = json.loads(json.dumps(whole.state_dict(), allow_nan=False))
    resumed.load_state_dict(state)
    assert resumed.metrics()["on_probation"] == 4
    after: list[list[dict[str, Any]]] = []
    for one in (whole, resumed):
        assert isinstance(one.proposer, Numbered)
        one.proposer.made = 4
        before = len(one.log)
        train(one, 12)
        after.append(list(one.log)[before:])
    assert after[0] == after[1]
    assert whole.metrics() == resumed.metrics()
    assert json.dumps(whole.state_dict()["parts"]) == json.dumps(resumed.state_dict()["parts"])


def test_blocks_compare_them_on_the_same_questions() -> None:
    one = engine(candidates_per_question=5, grouping="question", groups=12)
    train(one, 6)
    one.evolve(POLICY)
    train(one, 1)
    assert one.metrics()["probation_kept"] == 2
    assert [living.id for living in one.population.alive] == ["c0", "c1", "c3"]


@pytest.mark.parametrize("when", ["observe", "conclude", "lacking"])
def test_one_that_fails_is_replaced_and_nobody_is_on_probation(when: str) -> None:
    class Failing(Probation):
        failing = False

        def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
            super().observe(step, trajectories)
            self.failing = bool(self.on_probation())
            if when == "observe" and self.failing:
                raise RuntimeError("out of order")

        def lacking(self) -> dict[str, int]:
            if when == "lacking" and self.failing:
                raise RuntimeError("out of order")
            return dict(super().lacking())

        def conclude(self, final: bool) -> Verification | None:
            return Verification(()) if when == "conclude" else super().conclude(final)

    one = engine(verifier=Failing(24))
    with pytest.warns(EvopromptWarning, match="the built-in ReplayTopN takes over"):
        train(one, 9)
    assert one.metrics()["on_probation"] == 0
    assert one.metrics()["component_failures"] == 1
