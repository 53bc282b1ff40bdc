"""Evolution: when it is due, what it does to the population, and what it may spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
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

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.errors import (
    EvopromptWarning,
)
from evoprompt.roles import ProposalRequest
from evoprompt.selectors import Deap
from evoprompt.testing import FakeTrainer, ScriptedPolicy
from evoprompt.testing.samples import REQUIRED
from evoprompt.types import (
    Assignment,
    EvolveReport,
    Proposal,
    TextLimits,
    Trajectory,
    VerificationResult,
)
from evoprompt.verifiers import Race


class TestEvolve:
    def test_does_nothing_when_it_is_not_due(self) -> None:
        one = engine()
        before = one.state_dict()
        policy = ScriptedPolicy(nothing)
        assert one.evolve(policy) == EvolveReport(0)
        assert one.state_dict() == before
        assert policy.assignments == []

    def test_is_due_until_it_is_done(self) -> None:
        one = engine(evolve_every=2)
        policy = ScriptedPolicy(nothing)
        trainer = FakeTrainer(policy, QUESTIONS)
        trainer.train(one, 2)
        one.tell([])
        assert one.evolution_due
        assert one.evolve(policy).due
        assert not one.evolution_due

    def test_stays_due_when_the_policy_crashes(self) -> None:
        one = engine(evolve_every=2)
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
        assert set(kinds(one)) == {"seeded", "asked", "told", "shown"}
        assert [candidate.text for candidate in one.population.alive] == [SEED]

    def test_several_static_instructions_are_raced(self) -> None:
        one = engine(*several(4), evolving=False)
        FakeTrainer(ScriptedPolicy(lambda a: float(number_of(a))), QUESTIONS).train(one, 30)
        assert alive(one) == ["c3"]

    def test_several_parents_breed(self) -> None:
        one = engine(*several(3), parents=2, prune_every=30, accept="top")
        policy = ScriptedPolicy(lambda a: 1.0 / (1 + number_of(a)))
        FakeTrainer(policy, QUESTIONS).train(one, 15)
        one.evolve(policy)
        assert isinstance(one.proposer, Numbered)
        assert [p.candidate.id for p in one.proposer.requests[0].parents] == ["c0", "c1"]
        assert {"c0", "c1"} <= set(alive(one))
        assert "c2" not in alive(one)

    def test_pruning_never_goes_below_the_parents(self) -> None:
        one = engine(*several(7), evolving=False, parents=3, prune_every=1)
        trainer = FakeTrainer(ScriptedPolicy(lambda a: float(number_of(a))), QUESTIONS * 4)
        trainer.train(one, 12)
        assert alive(one) == ["c4", "c5", "c6"]

    def test_who_was_replaced_is_logged_before_the_generation_ends(self) -> None:
        one = engine(*several(3), prune_every=30)
        policy = ScriptedPolicy(lambda a: 0.5 if number_of(a) < 3 else 1.0)
        FakeTrainer(policy, QUESTIONS).train(one, 15)
        one.evolve(policy)
        *_, pruned, evolved = one.log
        assert (pruned["event"], pruned["dropped"], pruned["kept"]) == (
            "pruned",
            ["c1", "c2"],
            ["c0"],
        )
        assert evolved["population"] == alive(one)

    def test_the_firewall_rejects_with_an_event_and_costs_no_rollout(self) -> None:
        class Careless(Proposer):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return [Proposal.of("Just add."), Proposal.of(SEED)]

        one = Engine([SEED], proposer=Careless(), required=REQUIRED, seed=1)
        policy = ScriptedPolicy(nothing)
        FakeTrainer(policy, QUESTIONS).train(one, 15)
        why = r"screening refused all 10: lost tag <answer>, </answer> \(5\), duplicate \(5\)"
        with pytest.warns(EvopromptWarning, match=why):
            report = one.evolve(policy)
        assert (report.rounds, report.proposed, report.rollouts) == (5, 10, 0)
        rules = [(e["rule"], e["candidate"]) for e in one.log if e["event"] == "proposed"]
        assert rules == [("protocol", ""), ("duplicate", "")] * 5

    def test_another_firewall_and_other_selectors_can_be_given(self) -> None:
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
        FakeTrainer(policy, QUESTIONS * 3).train(one, 1)
        assert "probabilities" in next(e for e in one.log if e["event"] == "asked")
        one.evolve(policy)
        assert isinstance(one.proposer, Numbered)
        assert [p.candidate.id for p in one.proposer.requests[0].parents] == ["c0"]


class Thinker(Numbered):
    """Thinks ahead, learns and reports; ready when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = False
        self.anticipated: list[ProposalRequest] = []
        self.results: list[VerificationResult] = []
        self.news = ["hello"]

    @property
    def ready(self) -> bool:
        return self.is_ready

    def anticipate(self, request: ProposalRequest) -> None:
        self.anticipated.append(request)

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        self.results += results

    def notices(self) -> Sequence[str]:
        news, self.news = self.news, []
        return news

    def metrics(self) -> Mapping[str, float]:
        return {"lm/calls": float(self.made)}


class TestProposersThatDoMore:
    def thinking(self, **numbers: Any) -> tuple[Engine, Thinker, FakeTrainer]:
        thinker = Thinker()
        numbers = {"evolve_every": 4, "evolve_until": 8, "verify_questions": 2, **numbers}
        one = Engine([SEED], proposer=thinker, config=EngineConfig(**numbers), required=REQUIRED)
        return one, thinker, FakeTrainer(ScriptedPolicy(nothing), QUESTIONS[:1])

    def test_one_that_thinks_ahead_starts_the_step_before(self) -> None:
        one, thinker, trainer = self.thinking()
        trainer.train(one, 2)
        assert thinker.anticipated == []
        trainer.train(one, 2)
        (request,) = thinker.anticipated
        assert (request.step, request.count, len(request.failures)) == (3, 12, 6)
        assert [parent.candidate.id for parent in request.parents] == ["c0"]

    def test_training_does_not_wait_for_it(self) -> None:
        one, thinker, trainer = self.thinking()
        trainer.train(one, 6)
        assert one.evolution_due
        assert not one.evolve(trainer.policy).due
        notices = [e for e in one.log if e["event"] == "notice" and "thinking" in e["message"]]
        assert [notice["step"] for notice in notices] == [4]
        thinker.is_ready = True
        trainer.train(one, 1)
        assert alive(one) == [f"c{n}" for n in range(7)]
        assert [e["step"] for e in one.log if e["event"] == "evolved"] == [6]

    def test_it_is_not_started_for_a_generation_that_never_comes(self) -> None:
        one, thinker, trainer = self.thinking()
        thinker.is_ready = True
        trainer.train(one, 8)
        one.evolve(trainer.policy)
        thinker.is_ready = False
        trainer.train(one, 6)
        assert thinker.anticipated == []

    def test_one_that_learns_hears_the_verdicts(self) -> None:
        one, thinker, trainer = self.thinking()
        thinker.is_ready = True
        trainer.train(one, 5)
        (evolved,) = (event for event in one.log if event["event"] == "evolved")
        heard = [result.candidate.id for result in thinker.results if result.admitted]
        assert heard == evolved["admitted"] == [f"c{n}" for n in range(1, 7)]
        assert len(thinker.results) == 12

    def test_one_that_reports_is_logged_and_measured(self) -> None:
        one, thinker, trainer = self.thinking()
        trainer.train(one, 1)
        thinker.news = ["the model is slow"]
        trainer.train(one, 1)
        assert [(e["step"], e["message"]) for e in one.log if e["event"] == "notice"] == [
            (1, "hello"),
            (2, "the model is slow"),
        ]
        assert one.metrics()["proposer/lm/calls"] == 0.0


def test_limits_reach_the_firewall() -> None:
    one = engine(evolve_every=1)
    one.limits = TextLimits(max_tokens=3)
    with pytest.warns(EvopromptWarning, match=r"screening refused all 60: too long \(60\)"):
        FakeTrainer(ScriptedPolicy(nothing), QUESTIONS).train(one, 2)
    rules = {event["rule"] for event in one.log if event["event"] == "proposed"}
    assert rules == {"too_long"}
    assert one.limits.max_tokens == 3


class TestBudget:
    @pytest.mark.parametrize(("budget", "spent"), [(None, 40), (88, 40), (87, 0), (10, 0)])
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
            assert "no verification: it needs 40 more rollouts" in notices[0]
            assert report.admitted == ()
            assert report.failure == ""
            assert one.metrics()["generations_refused"] == 0
        assert not one.evolution_due

    def test_a_race_ends_where_it_does_not_fit_and_what_it_spent_counts(self) -> None:
        one = Engine(
            [SEED],
            proposer=Numbered(),
            config=EngineConfig(evolve_every=3, population_size=3),
            verifier=Race(8, looks=2),
        )
        one.budget = 48 + 28
        policy = ScriptedPolicy(lambda assignment: float(number_of(assignment) % 2))
        FakeTrainer(policy, QUESTIONS).train(one, 3)
        report = one.evolve(policy)
        assert 0 < report.rollouts <= 28
        assert one.rollouts <= one.budget
        assert report.admitted == ()
