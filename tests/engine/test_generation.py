"""One generation: propose, screening, verify, until the population is full or patience is spent."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from evoprompt.candidates import Screening
from evoprompt.config import EngineConfig
from evoprompt.errors import ComponentError, InputError
from evoprompt.eventlog import EventLog
from evoprompt.events import Event, Notice, Proposed, Shown, Verified
from evoprompt.generation import GenerationRunner, Offspring
from evoprompt.proposers.combinators import NoProposer
from evoprompt.race import Race
from evoprompt.replay import ReplayBuffer
from evoprompt.roles import ProposalRequest, Proposer, VerificationRequest, Verifier
from evoprompt.schedule import Unfilled
from evoprompt.testing import ScriptedPolicy
from evoprompt.testing.samples import REQUIRED, candidate, candidate_stats, question, trajectory
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Proposal,
    Setting,
    TextLimits,
    Turn,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import ReplayTopN, Unverified

Answer = Callable[[ProposalRequest], Any]


def text(number: int) -> str:
    return f"Think of trick {number}, then write <answer>the sum</answer>."


def numbered(request: ProposalRequest) -> list[Proposal]:
    """As many proposals as asked for, never the same again."""
    return [Proposal.of(text(request.rng.randrange(10**9))) for _ in range(request.count)]


class Scripted(Proposer):
    """Answers by a function and remembers what it was asked."""

    def __init__(self, answer: Answer = numbered) -> None:
        self.answer = answer
        self.requests: list[ProposalRequest] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.requests.append(request)
        found: Sequence[Proposal] = self.answer(request)
        return found


class Observant(Scripted):
    """Learns and reports, too."""

    def __init__(self, answer: Answer = numbered) -> None:
        super().__init__(answer)
        self.learned: list[list[VerificationResult]] = []
        self.told = 0

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        self.learned.append(list(results))

    def notices(self) -> Sequence[str]:
        self.told += 1
        return [f"notice {self.told}"]

    def metrics(self) -> Mapping[str, float]:
        return {}


class Farm:
    """A breeder with a parent c0 (and a second one, c1), and all that happens around it.

    Every rollout earns what ``reward`` says; nothing is earned by default.
    """

    def __init__(
        self,
        proposer: Proposer,
        reward: Callable[[Assignment], float | None] = lambda assignment: 0.0,
        failures: int = 6,
        verifier: Verifier | None = None,
        turns: tuple[Turn, ...] | None = None,
        **numbers: Any,
    ) -> None:
        self.policy = ScriptedPolicy(reward)
        self.events: list[Event] = []
        replay = ReplayBuffer()
        told = [trajectory(candidate(0), question(n), 0.0) for n in range(failures)]
        replay.add(1, told if turns is None else [replace(one, turns=turns) for one in told])
        config = EngineConfig(verify_questions=4, **numbers)
        assert config.accept != "all"
        usual = ReplayTopN(4, config.accept)
        screening = Screening(None, replay, REQUIRED, self.events.append)
        screening.born = 2
        log = EventLog()
        log.subscribe(self.events.append)
        self.generations = GenerationRunner(
            proposer,
            screening,
            verifier or usual,
            config,
            replay,
            random.Random(0),
            REQUIRED,
            log,
        )

    def breed(
        self,
        places: int,
        history: Sequence[CandidateStats] = (),
        waits: bool = True,
        step: int = 15,
        **more: Any,
    ) -> Offspring:
        known = candidate_stats([0.5, 0.4])
        return self.generations.breed(
            known[:1], known, places, step, history, self.policy, waits, **more
        )

    def of_kind(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if type(event) is kind]


def number_of(assignment: Assignment) -> int:
    return int(assignment.candidate.id[1:])


def odd_children_win(assignment: Assignment) -> float:
    """The parent c0 earns nothing, odd children more than that and even ones less."""
    number = number_of(assignment)
    return 0.0 if not number else 0.5 if number % 2 else -0.5


def few_children_win(assignment: Assignment) -> float:
    """The parent c0 earns nothing, every fourth child more than that and the others less."""
    number = number_of(assignment)
    return 0.0 if not number else 0.5 if number % 4 == 3 else -0.5


def ids(found: Offspring) -> list[str]:
    return [result.candidate.id for result in found.admitted]


class TestRounds:
    def test_end_when_the_places_are_filled(self) -> None:
        proposer = Scripted()
        found = Farm(proposer).breed(places=3)
        assert ids(found) == ["c2", "c3", "c4"]
        assert (found.rounds, found.proposed, found.rollouts) == (1, 6, 4 * (6 + 1))
        assert [request.count for request in proposer.requests] == [6]  # half are turned away

    def test_go_on_with_what_is_missing(self) -> None:
        proposer = Scripted()
        farm = Farm(proposer, lambda a: float(number_of(a) in (0, 3, 4, 11, 13)))
        found = farm.breed(places=4)
        assert [request.count for request in proposer.requests] == [8, 4]
        assert ids(found) == ["c3", "c4", "c11", "c13"]

    def test_end_when_patience_is_spent(self) -> None:
        proposer = Scripted()
        farm = Farm(proposer, lambda a: 1.0 if a.candidate.id == "c0" else 0.0, verify_rounds=3)
        found = farm.breed(places=2)
        assert (ids(found), found.rounds, found.rollouts) == ([], 3, 3 * 4 * (4 + 1))

    def test_end_when_the_proposer_has_no_idea(self) -> None:
        proposer = Scripted(lambda request: [])
        found = Farm(proposer).breed(places=2)
        assert (found.rounds, found.proposed, len(proposer.requests)) == (0, 0, 1)

    def test_do_not_begin_without_a_free_place(self) -> None:
        proposer = Scripted()
        assert Farm(proposer).breed(places=0) == Offspring()
        assert proposer.requests == []

    def test_cost_no_rollouts_when_the_firewall_rejects_all(self) -> None:
        farm = Farm(Scripted(lambda request: [Proposal.of("Do it.")] * 2), verify_rounds=4)
        found = farm.breed(places=2)
        assert (found.rounds, found.proposed, found.rollouts) == (4, 8, 0)
        assert farm.policy.assignments == []
        assert {event.rule for event in farm.of_kind(Proposed)} == {"protocol"}

    def test_a_silent_proposer_makes_none(self) -> None:
        found = Farm(NoProposer()).breed(places=2)
        assert found == Offspring(asked=True, obstacle="the proposer proposed nothing")
        assert found.failure == "the proposer proposed nothing"

    def test_a_thinker_is_waited_for_between_two_only_where_nobody_trains(self) -> None:
        class Thinker(Scripted):
            @property
            def ready(self) -> bool:
                return not self.requests

            def anticipate(self, request: ProposalRequest) -> None: ...

        for waits, rounds in ((False, 1), (True, 3)):
            found = Farm(Thinker(lambda r: numbered(r)[:1])).breed(places=3, waits=waits)
            assert (len(found.admitted), found.rounds) == (rounds, rounds)
            assert found.unfinished == (not waits)

    def test_are_counted_on_in_a_generation_that_goes_on(self) -> None:
        before = Unfilled(rounds=3, tried=9, admitted=0, places=2)
        found = Farm(Scripted(), lambda a: float(number_of(a) == 0)).breed(2, before=before)
        assert (found.rounds, found.refused, found.failure) == (2, True, "")
        assert found.left(2) == Unfilled(rounds=5, tried=17, admitted=0, places=2)

    def test_other_verifiers_than_the_usual_have_one_moment(self) -> None:
        """They bound their errors over the rounds of a generation, and remember its answers."""

        class Thinker(Scripted):
            @property
            def ready(self) -> bool:
                return not self.requests

            def anticipate(self, request: ProposalRequest) -> None: ...

        found = Farm(Thinker(), verifier=Race(4)).breed(places=3, waits=False)
        assert (found.rounds, found.unfinished) == (1, False)

    def test_more_proposals_than_places_are_all_verified(self) -> None:
        farm = Farm(Scripted(), lambda a: float(a.candidate.id[1:]), proposals_per_round=5)
        found = farm.breed(places=2)
        assert ids(found) == ["c6", "c5"]
        assert len(farm.of_kind(Verified)) == 1 + 5


class Remembering(Verifier):
    """A verifier that notes what it was asked, and expects 0.1 more of all than it measured."""

    def __init__(self) -> None:
        self.requests: list[VerificationRequest] = []
        self.found: list[Verification] = []

    def verify(self, request: VerificationRequest) -> Verification:
        self.requests.append(request)
        found = ReplayTopN(4).verify(request)

        def raised(result: VerificationResult) -> VerificationResult:
            expected = None if result.mean is None else result.mean + 0.1
            return replace(result, expected=expected)

        results = tuple(map(raised, found.results))
        self.found.append(
            Verification(results, tuple(map(raised, found.parents)), found.trajectories)
        )
        return self.found[-1]


class TestWhatAVerifierKnows:
    def test_of_the_rounds_before_and_after(self) -> None:
        verifier = Remembering()
        farm = Farm(Scripted(), few_children_win, verifier=verifier, verify_rounds=3)
        for generation in (1, 2):
            farm.breed(places=9)
            asked = verifier.requests[-3:]
            assert len(verifier.requests) == 3 * generation
            assert [request.rounds_left for request in asked] == [2, 1, 0]
            rounds = verifier.found[-3:]
            assert [list(request.earlier) for request in asked] == [[], rounds[:1], rounds[:2]]
            assert all(request.parents == asked[0].parents for request in asked)

    def test_what_it_expects_is_what_proposers_read(self) -> None:
        farm = Farm(Scripted(), odd_children_win, verifier=Remembering())
        found = farm.breed(places=1)
        (result,) = found.admitted
        assert result.expected == pytest.approx(0.6)
        name = result.candidate.id
        assert found.expected[name] == pytest.approx(0.6)
        assert found.expected["c0"] == pytest.approx(0.1)
        weights = {stats.candidate.id: stats.weight for stats in found.candidate_stats}
        assert weights[name] == pytest.approx(0.6)


class TestRequest:
    def test_holds_all_a_proposer_may_look_at(self) -> None:
        proposer, history = Scripted(), candidate_stats([0.1, 0.2, 0.3])
        farm = Farm(proposer, failures_per_request=3)
        farm.generations.setting = Setting("Be kind. [here stands the instruction]")
        farm.breed(places=2, history=history)
        (request,) = proposer.requests
        assert request.parents == candidate_stats([0.5])
        assert request.failures_per_request == 3
        assert len(request.failures) == 6, "more than are read, to choose from"
        assert request.living == candidate_stats([0.5, 0.4])
        assert request.setting == farm.generations.setting
        assert request.max_tokens == 1024
        assert request.history == history
        assert request.rng is farm.generations.rng
        assert (request.step, request.required) == (15, REQUIRED)

    def test_shows_the_parent_s_failures_first(self) -> None:
        proposer = Scripted()
        farm = Farm(proposer, failures=2, failures_per_request=3)
        others = [trajectory(candidate(1), question(n), 0.0) for n in range(6)]
        farm.generations.replay.add(9, others)
        farm.breed(places=1)
        shown = [failure.candidate.id for failure in proposer.requests[0].failures]
        assert shown[:3] == ["c0", "c0", "c1"]

    def test_hands_over_more_than_is_read_only_of_what_can_be_read(self) -> None:
        proposer = Scripted()
        farm = Farm(proposer, failures=20, turns=(), failures_per_request=3)
        farm.generations.replay.add(9, [trajectory(candidate(0), question(30), 0.0)])
        farm.breed(places=1)
        assert [bool(one.turns) for one in proposer.requests[0].failures] == [True, False, False]

    def test_says_why_the_last_proposals_were_refused(self) -> None:
        proposer = Scripted(lambda request: [Proposal.of("Do it.")] * 2)
        farm = Farm(proposer, verify_rounds=2)
        assert "lost tag <answer>, </answer> (4)" in farm.breed(places=2).failure
        farm.breed(places=2)
        first, *others = proposer.requests
        assert list(first.refusals) == []
        told = "protocol: lost tag <answer>, </answer>"
        assert [list(request.refusals) for request in others] == [[told] * 2] * 3

    def test_shows_the_failures_and_the_successes_of_a_verification(self) -> None:
        proposer = Scripted()
        farm = Farm(proposer, lambda a: float(a.candidate.id != "c0"), failures=4, turns=())
        farm.breed(places=2)
        farm.breed(places=2)
        before, after = proposer.requests
        assert not any(one.turns for one in before.failures)
        seen = [one for one in after.failures if one.turns]
        assert {one.candidate.id for one in seen} == {"c0"}
        assert len({one.question.id for one in seen}) == 4
        beside = {one.question.id: one.candidate.id for one in after.successes}
        assert set(beside) == {one.question.id for one in seen}
        records = farm.generations.replay.records
        assert [record.scored for record in records] == [1] * 4, "as before"

    def test_knows_the_room_that_the_longest_question_leaves(self) -> None:
        proposer = Scripted()
        farm = Farm(proposer)
        farm.generations.screening.limits = TextLimits(
            lambda text: len(text.split()), max_prompt_tokens=50
        )
        farm.breed(places=1)
        assert proposer.requests[0].max_tokens == 50 - 5


class TestProposersThatFail:
    def boom(self, request: ProposalRequest) -> Sequence[Proposal]:
        raise RuntimeError("out of tokens")

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (boom, "RuntimeError: out of tokens"),
            (lambda self, request: None, "TypeError: 'NoneType' object is not iterable"),
            (lambda self, request: ["Do it."], "TypeError: it returned 'Do it.'; required"),
        ],
    )
    def test_end_the_generation_with_a_notice(
        self, answer: Callable[[object, ProposalRequest], Any], message: str
    ) -> None:
        farm = Farm(Scripted(lambda request: answer(self, request)))
        found = farm.breed(places=2)
        assert (found.asked, found.rounds, found.admitted) == (True, 0, [])
        assert found.proposer_failures == 1
        assert found.failure.startswith(f"the proposer failed ({message}")
        (notice,) = farm.events
        assert isinstance(notice, Notice)
        assert notice.step == 15
        assert notice.message.startswith(f"the proposer failed, training goes on: {message}")

    def test_keep_what_earlier_rounds_admitted(self) -> None:
        def once(request: ProposalRequest) -> list[Proposal]:
            if request.count < 6:
                raise RuntimeError("out of tokens")
            return numbered(request)[:1]

        found = Farm(Scripted(once)).breed(places=3)
        assert (ids(found), found.rounds) == (["c2"], 1)

    def test_may_be_interrupted_by_the_user(self) -> None:
        def interrupted(request: ProposalRequest) -> list[Proposal]:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Farm(Scripted(interrupted)).breed(places=1)

    def test_may_return_any_iterable(self) -> None:
        farm = Farm(Scripted(lambda request: (proposal for proposal in numbered(request))))
        assert len(farm.breed(places=2).admitted) == 2


class TestWhatIsLearned:
    def test_a_proposer_hears_the_verdicts_of_each_round(self) -> None:
        proposer = Observant()
        farm = Farm(proposer, odd_children_win)
        farm.breed(places=2)
        heard = [[(v.candidate.id, v.admitted) for v in results] for results in proposer.learned]
        assert heard == [[("c3", True), ("c5", True), ("c2", False), ("c4", False)]]
        assert {v.candidate.proposer for results in proposer.learned for v in results} == {
            "Observant"
        }

    def test_its_notices_are_logged_after_each_proposal(self) -> None:
        farm = Farm(Observant(lambda request: []))
        farm.breed(places=2)
        assert farm.events == [Notice(15, "notice 1")]

    def test_a_proposer_that_delegates_names_who_wrote_it(self) -> None:
        def answer(request: ProposalRequest) -> list[Proposal]:
            return [Proposal({"instruction": text(1)}, proposer="Inner")]

        (result,) = Farm(Scripted(answer)).breed(places=1).admitted
        assert result.candidate.proposer == "Inner"

    def test_a_refused_text_is_not_verified_again(self) -> None:
        farm = Farm(
            Scripted(lambda request: [Proposal.of(text(7))]),
            lambda a: 1.0 if a.candidate.id == "c0" else 0.0,
            verify_rounds=3,
        )
        found = farm.breed(places=1)
        assert found.rollouts == 2 * 4
        assert [event.rule for event in farm.of_kind(Proposed)] == ["", "duplicate", "duplicate"]

    def test_an_admitted_text_is_not_admitted_again(self) -> None:
        farm = Farm(Scripted(lambda request: [Proposal.of(text(7))]), verify_rounds=3)
        assert ids(farm.breed(places=3)) == ["c2"]

    def test_a_child_may_have_children_in_the_next_round(self) -> None:
        def answer(request: ProposalRequest) -> list[Proposal]:
            parents = ("c2",) if request.count == 2 else ()
            return [Proposal({"instruction": text(request.count)}, parents)]

        found = Farm(Scripted(answer)).breed(places=2)
        assert [result.candidate.parents for result in found.admitted] == [("c0",), ("c2",)]


class TestAnswers:
    def test_are_kept_of_parents_and_children(self) -> None:
        def reward(assignment: Assignment) -> float | None:
            return None if assignment.question.id == "q0" else float(assignment.candidate.id[1:])

        found = Farm(Scripted(), reward, failures=4).breed(places=1)
        assert Counter((one.candidate.id, one.reward) for one in found.answers) == {
            ("c0", None): 1,
            ("c0", 0.0): 3,
            ("c2", None): 1,
            ("c2", 2.0): 3,
            ("c3", None): 1,
            ("c3", 3.0): 3,
        }

    def test_become_standings_of_all_that_were_scored(self) -> None:
        farm = Farm(Scripted(), lambda a: float(a.candidate.id[1:]), proposals_per_round=2)
        found = farm.breed(places=1)
        assert [(s.candidate.id, s.weight, s.groups) for s in found.candidate_stats] == [
            ("c3", 3.0, 4),
            ("c2", 2.0, 4),
        ]

    @pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
    def test_that_are_no_numbers_are_refused(self, reward: float) -> None:
        farm = Farm(Scripted(), lambda assignment: reward)
        with pytest.raises(InputError, match=f"reward {reward} of assignment 'c0/0'"):
            farm.breed(places=1)

    def test_of_a_crashed_policy_end_the_generation(self) -> None:
        def crash(assignment: Assignment) -> float:
            raise MemoryError("no space")

        with pytest.raises(MemoryError):
            Farm(Scripted(), crash).breed(places=1)


class TestAtTheStart:
    def test_without_anything_to_replay_what_passes_is_admitted_unmeasured(self) -> None:
        farm = Farm(Scripted(), failures=0, proposals_per_round=5)
        found = farm.breed(places=2, step=0)
        assert ids(found) == ["c2", "c3"]
        for result in found.admitted:
            assert (result.admitted, result.scored) == (True, 0)
            assert result.mean is None
        assert farm.policy.assignments == []
        assert found.candidate_stats == []

    def test_no_more_is_proposed_than_there_are_places(self) -> None:
        proposer = Scripted()
        assert len(Farm(proposer, failures=0).breed(places=6, step=0).admitted) == 6
        assert [request.count for request in proposer.requests] == [6]

    def test_rounds_go_on_until_the_places_are_filled(self) -> None:
        proposer = Scripted(lambda request: numbered(request)[:2])
        found = Farm(proposer, failures=0).breed(places=5, step=0)
        assert (len(found.admitted), found.rounds) == (5, 3)


class TestNothingUnmeasuredIsAdmitted:
    def test_where_no_rollout_of_the_training_had_a_reward(self) -> None:
        farm = Farm(Scripted(), failures=0)
        found = farm.breed(places=3)
        why = "no rollout of the training had a reward yet"
        assert (ids(found), found.failure, found.refused) == ([], why, False)
        assert farm.policy.assignments == []
        assert [notice.message for notice in farm.of_kind(Notice)] == [
            f"nobody could be verified, so nobody is admitted: {why}"
        ]

    def test_where_none_of_the_verification_had_one(self) -> None:
        farm = Farm(Scripted(), lambda assignment: None)
        found = farm.breed(places=3)
        why = "none of the 28 rollouts of the verification had a reward"
        assert (ids(found), found.failure, found.rounds) == ([], why, 1)
        assert [notice.message for notice in farm.of_kind(Notice)] == [
            f"nobody could be verified, so nobody is admitted: {why}"
        ]

    def test_but_who_is_not_to_be_verified_is(self) -> None:
        farm = Farm(Scripted(), failures=0, verifier=Unverified())
        assert len(farm.breed(places=3).admitted) == 3
        assert not farm.of_kind(Notice)

    def test_a_verifier_that_does_is_refused(self) -> None:
        class Generous(Verifier):
            def verify(self, request: VerificationRequest) -> Verification:
                found = ReplayTopN(4).verify(request)
                results = tuple(replace(one, admitted=True, reason="") for one in found.results)
                return replace(found, results=results[: request.slots])

        farm = Farm(Scripted(), lambda assignment: None, verifier=Generous())
        farm.generations.config = farm.generations.config.model_copy(
            update={"proposals_per_round": 3}
        )
        with pytest.raises(ComponentError, match=r"Generous of .* admitted c2, of whom"):
            farm.breed(places=3)


class TestEvents:
    def test_tell_proposals_then_parents_then_verdicts(self) -> None:
        farm = Farm(
            Scripted(),
            lambda a: None if a.candidate.id == "c3" else 0.5,
            proposals_per_round=2,
        )
        farm.breed(places=2)
        verdicts = [event for event in farm.events[:6] if not isinstance(event, Notice)]
        assert [type(event) for event in verdicts] == [
            Proposed,
            Proposed,
            Verified,
            Verified,
            Verified,
        ]
        parent, good, unscored = verdicts[2:]
        assert parent == Verified(15, "c0", 1, 0.5, 0.0, 4, False, "", True)
        assert good == Verified(15, "c2", 1, 0.5, 0.0, 4, True)
        reason = "no rollout of it could be scored"
        assert unscored == Verified(15, "c3", 1, None, None, 0, False, reason)

    @pytest.mark.parametrize("reward", [0.0, 1.0])
    def test_say_that_a_verification_told_nobody_apart(self, reward: float) -> None:
        farm = Farm(Scripted(), lambda assignment: reward)
        farm.breed(places=2)
        (notice,) = farm.of_kind(Notice)
        assert f"all 20 rewards were {reward:g}, and 2 of 4 candidates were" in notice.message

    def test_say_nothing_of_it_otherwise(self) -> None:
        farm = Farm(Scripted(), lambda a: float(a.question.id.endswith("1")))
        farm.breed(places=2)
        assert not farm.of_kind(Notice)

    def test_show_the_worst_and_the_best_answer_of_each_child_and_none_of_its_parent(self) -> None:
        farm = Farm(Scripted(), lambda a: float(a.question.id.endswith("1")))
        farm.breed(places=2)
        (shown,) = farm.of_kind(Shown)
        assert [(one.candidate, one.reward) for one in shown.excerpts] == [
            ("c2", 0.0),
            ("c2", 1.0),
            ("c3", 0.0),
            ("c3", 1.0),
            ("c4", 0.0),
            ("c4", 1.0),
            ("c5", 0.0),
            ("c5", 1.0),
        ]
        assert all(one.turns for one in shown.excerpts)

    def test_tell_what_was_admitted_without_a_measurement(self) -> None:
        farm = Farm(Scripted(), verifier=Unverified())
        farm.breed(places=1)
        assert farm.of_kind(Verified) == [Verified(15, "c2", 1, None, None, 0, True)]


def test_candidates_are_numbered_on_over_rounds_and_generations() -> None:
    farm = Farm(Scripted())
    first = ids(farm.breed(places=2))
    assert first + ids(farm.breed(places=2)) == ["c2", "c3", "c6", "c7"]


def test_a_child_of_several_components_is_bred() -> None:
    parent = Candidate("c0", {"instruction": "Add.", "format": "Write <answer>it</answer>."})
    components = {"instruction": "Add slowly.", "format": "Write <answer>it</answer>."}
    farm = Farm(Scripted(lambda request: [Proposal(components), Proposal.of(text(1))]))
    known = [CandidateStats(parent, 0.5)]
    found = farm.generations.breed(known, known, 2, 15, [], farm.policy)
    assert [result.candidate.components for result in found.admitted] == [components]
    assert {event.rule for event in farm.of_kind(Proposed)} == {"", "components", "duplicate"}
