"""Evolution: when it is due, what it does to the population, and what it may spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from contract_runs import VerifierInBatches
from numbered_engine import (
    QUESTIONS,
    SEED,
    Numbered,
    alive,
    engine,
    kinds,
    nothing,
    number_of,
    several,
)

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.selectors import Deap
from evoprompt.testing import FakeTrainer, ScriptedPolicy
from evoprompt.testing.samples import REQUIRED
from evoprompt.types import (
    Assignment,
    EvolveReport,
    Trajectory,
)


class TestEvolve:
    def test_does_nothing_when_it_is_not_due(self) -> None:
        one = engine()
        before = one.state_dict()
        policy = ScriptedPolicy(nothing)
        assert one.evolve(policy) == EvolveReport(0)
        assert one.state_dict() == before
        assert policy.assignments == []

    def test_stays_due_when_the_policy_crashes(self) -> None:
        one = engine(evolve_every=2, accept="not-worse")
        policy = ScriptedPolicy(nothing)
        FakeTrainer(policy, QUESTIONS).train(one, 2)

        def crash(assignments: Sequence[Assignment], /) -> list[Trajectory]:
            raise MemoryError("no space on the device")

        with pytest.raises(MemoryError):
            one.evolve(crash)
        assert one.evolution_due
        assert alive(one) == ["c0"]
        assert len(one.evolve(policy).admitted) == 6

    def test_a_static_instruction_never_evolves(self) -> None:
        one = engine(evolving=False, evolve_every=1)
        FakeTrainer(ScriptedPolicy(nothing), QUESTIONS).train(one, 20)
        assert not one.evolution_due
        assert set(kinds(one)) == {
            "seeded",
            "questions_assigned",
            "step_completed",
            "rollout_samples",
        }
        assert [candidate.text for candidate in one.population.members] == [SEED]

    def test_several_parents_breed(self) -> None:
        one = engine(*several(3), parents=2, prune_every=30, accept="top")
        policy = ScriptedPolicy(lambda a: 1.0 / (1 + number_of(a)))
        FakeTrainer(policy, QUESTIONS).train(one, 15)
        one.evolve(policy)
        assert isinstance(one.proposer, Numbered)
        assert [p.candidate.id for p in one.proposer.requests[0].parents] == ["c0", "c1"]
        assert {"c0", "c1"} <= set(alive(one))
        assert "c2" not in alive(one)

    def test_who_was_replaced_is_logged_before_the_generation_ends(self) -> None:
        one = engine(*several(3), accept="not-worse")
        policy = ScriptedPolicy(lambda a: 0.5 if number_of(a) < 3 else 1.0)
        FakeTrainer(policy, QUESTIONS).train(one, 15)
        one.evolve(policy)
        *_, pruned, evolved = one.log
        assert (pruned["event"], pruned["candidates"], pruned["members"]) == (
            "pruned",
            ["c1", "c2"],
            ["c0"],
        )
        assert evolved["population"] == alive(one)

    def test_other_rules_and_other_selectors_can_be_given(self) -> None:
        one = Engine(
            several(4),
            proposer=Numbered(),
            config=EngineConfig(evolve_every=1, prune_every=9),
            rules=[],
            sampler=Deap("random"),
            survivor=Deap("worst"),
            parent_selector=Deap("worst"),
        )
        policy = ScriptedPolicy(lambda a: float(number_of(a)))
        FakeTrainer(policy, QUESTIONS * 3).train(one, 5)  # until each has a dozen groups
        assert "probabilities" in next(e for e in one.log if e["event"] == "questions_assigned")
        one.evolve(policy)
        assert isinstance(one.proposer, Numbered)
        assert [p.candidate.id for p in one.proposer.requests[0].parents] == ["c0"]


class Reporting(Numbered):
    """Has something to tell a person, once."""

    news: Sequence[str] = ("the model is slow",)

    def notices(self) -> Sequence[str]:
        news, self.news = self.news, ()
        return news

    def metrics(self) -> Mapping[str, float]:
        return {"lm/calls": float(self.made)}


def test_what_a_proposer_reports_is_logged_once_and_measured() -> None:
    one = Engine(
        [SEED], proposer=Reporting(), required=REQUIRED, config=EngineConfig(evolve_every=3)
    )
    FakeTrainer(ScriptedPolicy(nothing), QUESTIONS[:1]).train(one, 2)
    notices = [(e["step"], e["message"]) for e in one.log if e["event"] == "notice"]
    assert notices == [(1, "the model is slow")]
    assert one.metrics()["proposer/lm/calls"] == 0.0


class TestBudget:
    @pytest.mark.parametrize(("budget", "spent"), [(None, 60), (108, 60), (107, 0), (10, 0)])
    def test_a_verification_that_goes_beyond_it_is_not_begun(
        self, budget: int | None, spent: int
    ) -> None:
        one = engine(
            evolve_every=3, verify_questions=4, verify_rounds=1, population_size=6, accept="top"
        )
        one.budget = budget
        policy = ScriptedPolicy(lambda asked: 0.4 * (QUESTIONS.index(asked.question) % 2))
        FakeTrainer(policy, QUESTIONS).train(one, 3)
        report = one.evolve(policy)
        assert one.training_rollouts == 48
        assert report.rollouts == one.verification_rollouts == spent
        notices = [event["message"] for event in one.log if event["event"] == "notice"]
        if spent:
            assert notices == []
            assert report.admitted
        else:
            assert "no verification: it needs 60 more rollouts" in notices[0]
            assert report.admitted == ()
            assert report.failure == ""
            assert one.metrics()["generations_refused"] == 0
        assert not one.evolution_due

    def test_a_verification_in_batches_ends_at_the_budget_and_its_rollouts_count(
        self,
    ) -> None:
        one = Engine(
            [SEED],
            proposer=Numbered(),
            config=EngineConfig(evolve_every=3, population_size=3),
            verifier=VerifierInBatches(8),
        )
        one.budget = 48 + 28
        policy = ScriptedPolicy(lambda assignment: float(number_of(assignment) % 2))
        FakeTrainer(policy, QUESTIONS).train(one, 3)
        report = one.evolve(policy)
        assert 0 < report.rollouts <= 28
        assert one.rollouts <= one.budget
        assert report.admitted == ()
