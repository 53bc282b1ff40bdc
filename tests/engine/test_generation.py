"""One generation: propose, screen, verify, until the population is full or no round is left."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from evoprompt import Engine, EngineConfig, Proposer, Verifier
from evoprompt.roles import ProposalRequest, VerificationRequest
from evoprompt.support.errors import ComponentError, EvopromptWarning, InputError
from evoprompt.testing import ScriptedPolicy
from evoprompt.testing.samples import REQUIRED, question, trajectory
from evoprompt.types import (
    ADMITTED,
    Assignment,
    EvolveReport,
    Proposal,
    TaskContext,
    TextLimits,
    Turn,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import ReplayTopN

Answer = Callable[[ProposalRequest], Any]
SEED = "Write <answer>the sum</answer>."


def text(number: int) -> str:
    return f"Think of trick {number}, then write <answer>the sum</answer>."


def numbered(request: ProposalRequest) -> list[Proposal]:
    """As many proposals as asked for, never the same again."""
    return [Proposal.of(text(request.rng.randrange(10**9))) for _ in range(request.count)]


class Scripted(Proposer):
    """Answers by a function, and remembers what it was asked and told."""

    def __init__(self, answer: Answer = numbered, notice: str = "") -> None:
        self.answer = answer
        self.notice = notice
        self.requests: list[ProposalRequest] = []
        self.learned: list[list[VerificationResult]] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.requests.append(request)
        found: Sequence[Proposal] = self.answer(request)
        return found

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        self.learned.append(list(results))

    def notices(self) -> Sequence[str]:
        return [self.notice] if self.notice else []


class Farm:
    """An engine at step 15 with the instruction c0, some failures of it and free places."""

    def __init__(
        self,
        proposer: Proposer,
        reward: Callable[[Assignment], float | None] = lambda assignment: 0.0,
        places: int = 2,
        failures: int = 6,
        verifier: Verifier | None = None,
        turns: tuple[Turn, ...] | None = None,
        seed: str | dict[str, str] = SEED,
        **numbers: Any,
    ) -> None:
        self.policy = ScriptedPolicy(reward)
        numbers = {"accept": "not-worse", "verify_questions": 4, **numbers}
        config = EngineConfig(population_size=1 + places, **numbers)
        self.engine = Engine(
            [seed], proposer=proposer, config=config, required=REQUIRED, verifier=verifier
        )
        told = [trajectory(self.engine.best, question(n), 0.0) for n in range(failures)]
        told = told if turns is None else [replace(one, turns=turns) for one in told]
        self.engine.replay.add(1, told)
        self.engine.step = 15

    def evolve(self) -> EvolveReport:
        self.engine.evolution_due = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvopromptWarning)
            return self.engine.evolve(self.policy)

    def told(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self.engine.log if event["event"] in kinds]


def number_of(assignment: Assignment) -> int:
    return int(assignment.candidate.id[1:])


def odd_children_win(assignment: Assignment) -> float:
    """The parent c0 earns nothing, odd children more than that and even ones less."""
    number = number_of(assignment)
    return 0.0 if not number else 0.5 if number % 2 else -0.5


def nobody_wins(assignment: Assignment) -> float:
    return float(assignment.candidate.id == "c0")


class TestRounds:
    def test_end_when_the_places_are_filled(self) -> None:
        proposer = Scripted()
        report = Farm(proposer, places=3).evolve()
        assert report.admitted == ("c1", "c2", "c3")
        assert (report.rounds, report.proposed, report.rollouts) == (1, 6, 4 * (6 + 1))
        assert [request.count for request in proposer.requests] == [6]  # half are refused

    def test_go_on_with_what_is_missing(self) -> None:
        proposer = Scripted()
        farm = Farm(proposer, lambda a: float(number_of(a) in (0, 2, 3, 10, 12)), places=4)
        assert farm.evolve().admitted == ("c2", "c3", "c10", "c12")
        assert [request.count for request in proposer.requests] == [8, 4]

    def test_cost_no_rollouts_when_screening_refuses_all(self) -> None:
        farm = Farm(Scripted(lambda request: [Proposal.of("Do it.")] * 2), verify_rounds=4)
        report = farm.evolve()
        assert (report.rounds, report.proposed, report.rollouts) == (4, 8, 0)
        assert farm.policy.assignments == []
        assert {event["rule"] for event in farm.told("proposed")} == {"protocol"}


class Remembering(Verifier):
    """A verifier that notes what it was asked and what it found."""

    def __init__(self) -> None:
        self.requests: list[VerificationRequest] = []
        self.found: list[Verification] = []

    def verify(self, request: VerificationRequest) -> Verification:
        self.requests.append(request)
        self.found.append(ReplayTopN(4).verify(request))
        return self.found[-1]


class TestWhatAVerifierKnows:
    def test_of_the_rounds_before_and_after(self) -> None:
        verifier = Remembering()
        farm = Farm(Scripted(), nobody_wins, verifier=verifier, verify_rounds=3)
        for generation in (1, 2):
            farm.evolve()
            asked = verifier.requests[-3:]
            assert len(verifier.requests) == 3 * generation
            assert [request.rounds_left for request in asked] == [2, 1, 0]
            rounds = verifier.found[-3:]
            assert [list(request.earlier) for request in asked] == [[], rounds[:1], rounds[:2]]
            assert all(request.parents == asked[0].parents for request in asked)


class TestRequest:
    def test_holds_all_a_proposer_may_look_at(self) -> None:
        proposer = Scripted()
        farm = Farm(proposer, failures_per_request=3)
        farm.engine.setting = TaskContext("Be kind. [here stands the instruction]")
        members = farm.engine.candidate_stats()
        farm.evolve()
        (request,) = proposer.requests
        assert request.parents == request.members == members
        assert request.failures_per_request == 3
        assert len(request.failures) == 6, "more than are read, to choose from"
        assert request.setting == farm.engine.setting
        assert request.max_tokens == 1024
        assert request.rng is farm.engine.rng
        assert (request.step, request.required) == (15, REQUIRED)

    def test_says_why_the_last_proposals_were_refused(self) -> None:
        proposer = Scripted(lambda request: [Proposal.of("Do it.")] * 2)
        farm = Farm(proposer, verify_rounds=2)
        assert "lost tag <answer>, </answer> (4)" in farm.evolve().failure
        farm.evolve()
        told = "protocol: lost tag <answer>, </answer>, in 'Do it.'"
        assert [list(request.rejections) for request in proposer.requests] == [
            [],
            *[[told] * 2] * 3,
        ]

    def test_shows_the_failures_and_the_successes_of_a_verification(self) -> None:
        def reward(assignment: Assignment) -> float:
            return {0: 0.0, 1: 1.0}.get(number_of(assignment), -1.0)

        proposer = Scripted()
        farm = Farm(proposer, reward, failures=4, turns=(), verify_rounds=2)
        farm.evolve()
        before, after = proposer.requests
        assert not any(one.turns for one in before.failures)
        seen = [one for one in after.failures if one.turns and one.candidate.id == "c0"]
        assert len({one.question.id for one in seen}) == 4
        assert {one.candidate.id for one in after.successes} == {"c1"}
        assert [record.scored for record in farm.engine.replay.records] == [1] * 4, "as before"

    def test_knows_the_room_that_the_longest_question_leaves(self) -> None:
        proposer = Scripted()
        farm = Farm(proposer)
        farm.engine.limits = TextLimits(lambda text: len(text.split()), max_prompt_tokens=50)
        farm.evolve()
        assert proposer.requests[0].max_tokens == 50 - 5


class TestProposersThatFail:
    def boom(self, request: ProposalRequest) -> Sequence[Proposal]:
        raise RuntimeError("out of tokens")

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (boom, "RuntimeError: out of tokens"),
            (lambda self, request: None, "InputError: it returned None, which is no Proposal"),
            (lambda self, request: ["Do it."], "InputError: it returned 'Do it.', which is no"),
        ],
    )
    def test_end_the_generation_with_a_notice(
        self, answer: Callable[[object, ProposalRequest], Any], message: str
    ) -> None:
        farm = Farm(Scripted(lambda request: answer(self, request)))
        report = farm.evolve()
        assert (report.rounds, report.admitted) == (0, ())
        assert farm.engine.metrics()["proposer_failures"] == 1
        assert report.failure.startswith(f"the proposer failed ({message}")
        (notice,) = farm.told("notice")
        assert notice["message"].startswith(f"the proposer failed, training goes on: {message}")


class TestWhatIsLearned:
    def test_a_proposer_hears_the_verdicts_of_each_round(self) -> None:
        proposer = Scripted(notice="hello")
        farm = Farm(proposer, odd_children_win)
        farm.evolve()
        heard = [[(v.candidate.id, v.is_admitted) for v in results] for results in proposer.learned]
        assert heard == [[("c1", True), ("c3", True), ("c2", False), ("c4", False)]]
        names = {v.candidate.proposer for results in proposer.learned for v in results}
        assert names == {"Scripted"}
        assert [event["message"] for event in farm.told("notice")] == ["hello"]

    def test_a_refused_text_is_not_verified_again_in_the_same_generation(self) -> None:
        farm = Farm(Scripted(lambda request: [Proposal.of(text(7))]), nobody_wins, verify_rounds=3)
        assert farm.evolve().rollouts == 2 * 4
        assert [one["rule"] for one in farm.told("proposed")] == ["", "duplicate", "duplicate"]
        assert farm.evolve().rollouts == 2 * 4, "under another policy it may be tried again"

    def test_a_child_may_have_children_in_the_next_round(self) -> None:
        def answer(request: ProposalRequest) -> list[Proposal]:
            parents = ("c1",) if request.count == 2 else ()
            return [Proposal({"instruction": text(request.count)}, parents)]

        farm = Farm(Scripted(answer))
        farm.evolve()
        assert [one.parents for one in farm.engine.population.members] == [(), ("c0",), ("c1",)]

    def test_texts_of_several_components_are_bred(self) -> None:
        seed = {"instruction": "Add.", "format": "Write <answer>it</answer>."}
        children = {**seed, "instruction": "Add slowly."}
        farm = Farm(Scripted(lambda request: [Proposal(children), Proposal.of(text(1))]), seed=seed)
        farm.evolve()
        assert [one.components for one in farm.engine.population.members] == [seed, children]
        assert {one["rule"] for one in farm.told("proposed")} == {"", "components", "duplicate"}


class TestRollouts:
    def test_that_have_no_number_are_refused(self) -> None:
        with pytest.raises(InputError, match="reward nan of assignment 'c0/0'"):
            Farm(Scripted(), lambda assignment: math.nan).evolve()


class TestNothingUnmeasuredIsAdmitted:
    @pytest.mark.parametrize(
        ("failures", "why"),
        [
            (0, "no rollout of the training had a reward yet"),
            (6, "none of the 20 rollouts of the verification had a reward"),
        ],
    )
    def test_where_nothing_has_a_reward(self, failures: int, why: str) -> None:
        farm = Farm(Scripted(), lambda assignment: None, failures=failures)
        report = farm.evolve()
        assert (report.admitted, report.failure) == ((), why)
        assert farm.told("notice")[0]["message"] == (
            f"no proposal could be verified, so none is admitted: {why}"
        )

    def test_a_verifier_that_does_is_refused(self) -> None:
        class Generous(Verifier):
            def verify(self, request: VerificationRequest) -> Verification:
                found = ReplayTopN(4).verify(request)
                results = tuple(replace(one, decision=ADMITTED, reason="") for one in found.results)
                return replace(found, results=results)

        farm = Farm(Scripted(), lambda a: None, verifier=Generous(), proposals_per_round=2)
        with pytest.raises(ComponentError, match=r"Generous of .* admitted c1, of which"):
            farm.evolve()


class TestEvents:
    def test_tell_proposals_then_parents_then_verdicts(self) -> None:
        farm = Farm(
            Scripted(),
            lambda a: None if a.candidate.id == "c2" else 0.5,
            proposals_per_round=2,
            verify_rounds=1,
        )
        farm.evolve()
        told = [
            (one["event"], one["candidate"], one.get("scored"), one.get("reason"))
            for one in farm.told("proposed", "verified")
        ]
        assert told == [
            ("proposed", "c1", None, ""),
            ("proposed", "c2", None, ""),
            ("verified", "c0", 4, ""),
            ("verified", "c1", 4, ""),
            ("verified", "c2", 0, "no rollout of it could be scored"),
        ]
        assert [one["parent"] for one in farm.told("verified")] == [True, False, False]
        assert [one["admitted"] for one in farm.told("verified")] == [False, True, False]

    @pytest.mark.parametrize(
        ("reward", "said"),
        [
            (lambda a: 0.0, "all 20 rewards were 0, and 2 of 4 candidates were"),
            (lambda a: 1.0, "all 20 rewards were 1, and 2 of 4 candidates were"),
            (lambda a: float(a.question.id.endswith("1")), ""),
        ],
    )
    def test_say_that_a_verification_told_nobody_apart(
        self, reward: Callable[[Assignment], float], said: str
    ) -> None:
        farm = Farm(Scripted(), reward)
        farm.evolve()
        notices = [one["message"] for one in farm.told("notice")]
        assert len(notices) == bool(said)
        assert all(said in notice for notice in notices)
