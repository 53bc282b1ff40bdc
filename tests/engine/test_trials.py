"""Trials in training: proposals beside the incumbent in ordinary steps, without extra rollouts."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.generation import TrialCandidate, Trials
from evoprompt.log.eventlog import EventLog
from evoprompt.roles import ProposalRequest, TrainingScale, VerificationRequest, Verifier
from evoprompt.support.errors import ComponentError, EvopromptWarning, InputError
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import (
    ADMITTED,
    REJECTED,
    Assignment,
    Proposal,
    Question,
    Trajectory,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import InTraining, Unverified

Chance = Callable[[int], float]
"""Chance of a reward under the text of a number."""


class World(Proposer):
    """Writes numbered texts, and answers under them.

    Args:
        chance: of a reward under the text of a number.
        questions: of a step.
        seed: of the rewards.
        repeat: whether each step has the same questions.
        scale: factor of the rewards of 0 and 1.
    """

    def __init__(
        self,
        chance: Chance = lambda number: 0.3 + 0.4 * (number == 3),
        questions: int = 16,
        seed: int = 0,
        repeat: bool = False,
        scale: float = 1.0,
    ) -> None:
        self.chance, self.questions, self.repeat, self.scale = chance, questions, repeat, scale
        self.rng = random.Random(seed)
        self.written = self.step = self.extra_rollouts = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        first = self.written + 1
        self.written += request.count
        return [Proposal.of(f"Note {n}.") for n in range(first, first + request.count)]

    def roll_extra(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        self.extra_rollouts += len(assignments)
        return self.roll(assignments)

    def roll(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        return [
            Trajectory(
                assignment,
                self.scale * (self.rng.random() < self.chance(number_of(assignment))),
                rollout,
            )
            for assignment in assignments
            for rollout in range(assignment.rollouts)
        ]

    def engine(
        self,
        seeds: Sequence[str] = ("Note 0.",),
        *,
        rollouts: int = 5,
        several: bool = True,
        log: EventLog | None = None,
        verifier: Verifier | None = None,
        **settings: Any,
    ) -> Engine:
        engine = Engine(
            list(seeds),
            proposer=self,
            config=EngineConfig(**settings),
            log=log,
            rules=[],
            verifier=verifier,
        )
        engine.divide_rollouts(rollouts, "num_generations", several=several)
        return engine

    def batch(self) -> list[Question]:
        first = 0 if self.repeat else self.step * self.questions
        return [Question(f"q{n}", "Who?") for n in range(first, first + self.questions)]

    def train(self, engine: Engine, steps: int) -> list[list[Assignment]]:
        """Take steps; return the assignments of each."""
        assignments: list[list[Assignment]] = []
        for _ in range(steps):
            engine.evolve(self.roll_extra)
            each = 5 // engine.selection.candidates_per_question
            assignments.append(engine.ask(self.batch(), each))
            engine.tell(self.roll(assignments[-1]))
            self.step += 1
        return assignments

    def begin_trials(self, engine: Engine) -> None:
        """Take steps until candidates are on trial, but have no rollout yet."""
        for _ in range(40):
            engine.evolve(self.roll_extra)
            if on_trial(engine):
                return
            self.train(engine, 1)
        raise AssertionError("no candidate is on trial after 40 steps")


class Waiting(InTraining):
    """Verifier that never decides."""

    def verify(self, request: VerificationRequest) -> Verification:
        return Verification(
            tuple(VerificationResult(one, None, None, 0) for one in request.proposed)
        )


class Impatient(Waiting):
    """Verifier that never decides, with a limit of 50 rollouts."""

    def max_trial_rollouts(self, scale: TrainingScale) -> int:
        return 50


class RejectingFirst(Waiting):
    """Rejects the first candidate on trial after each training step."""

    def verify(self, request: VerificationRequest) -> Verification:
        results = super().verify(request).results
        if request.rollout is None:
            results = (replace(results[0], decision=REJECTED, reason="first"), *results[1:])
        return Verification(results)


class AdmittingFirst(Waiting):
    """Verifier that admits the first candidate on trial after a training step, whatever it is."""

    def verify(self, request: VerificationRequest) -> Verification:
        results = super().verify(request).results
        if request.rollout is None:
            results = (replace(results[0], decision=ADMITTED), *results[1:])
        return Verification(results)


def number_of(assignment: Assignment) -> int:
    return int(assignment.candidate.text.split()[-1].rstrip("."))


def on_trial(engine: Engine) -> list[str]:
    return [candidate.id for candidate in engine.generations.trials.candidates]


def members(engine: Engine) -> list[str]:
    return [member.text for member in engine.population.members]


def notices(engine: Engine) -> str:
    return "\n".join(event["message"] for event in engine.log if event["event"] == "notice")


def decisions(engine: Engine) -> dict[str, dict[str, Any]]:
    return {event["candidate"]: event for event in engine.log if event["event"] == "verified"}


def of_questions(assignments: Sequence[Assignment]) -> list[list[str]]:
    """Return the ids of the candidates of each question."""
    candidates: dict[str, list[str]] = {}
    for assignment in assignments:
        candidates.setdefault(assignment.question.id, []).append(assignment.candidate.id)
    return list(candidates.values())


class TestPopulation:
    def test_a_better_candidate_joins_it_without_an_extra_rollout(self) -> None:
        world = World(lambda number: 0.3 + 0.4 * (number >= 3))
        engine = world.engine()
        world.train(engine, 60)
        admitted = [name for name, event in decisions(engine).items() if event["admitted"]]
        assert admitted
        assert {member.id for member in engine.population.members} == {"c0", *admitted}
        assert world.chance(int(engine.best.text[5:-1])) == 0.7
        assert engine.best_statement() == (
            f"{engine.best.id} is shown to be better than the first instruction, c0"
        )
        assert world.extra_rollouts == engine.verification_rollouts == 0
        assert engine.generation_stats.admitted_total == len(admitted)
        assert engine.generation_stats.generations == world.written // 6 >= 3
        best = [event for event in engine.log if event["event"] == "incumbent_changed"]
        assert best[-1]["candidate"] == engine.best.id
        assert best[-1]["is_better"]

    def test_rejected_candidates_have_a_reason_and_admitted_ones_have_none(self) -> None:
        world = World(lambda number: 0.3 + 0.4 * (number >= 3))
        engine = world.engine()
        world.train(engine, 60)
        reason = r"\d\.\d{3} (ahead of|behind) c\d+ after \d+ rollouts(; unlikely to be|, which) .*"
        for event in decisions(engine).values():
            assert re.fullmatch("" if event["admitted"] else reason, event["reason"])

    def test_worse_candidates_are_hardly_ever_admitted_and_never_the_best(self) -> None:
        generations = admitted = 0
        for seed in range(6):
            world = World(lambda number: 0.4 - 0.1 * (number > 0), seed=seed)
            engine = world.engine()
            world.train(engine, 60)
            assert engine.best.id == "c0"
            generations += engine.generation_stats.generations
            admitted += engine.generation_stats.admitted_total
        assert admitted / generations <= 0.1

    def test_the_parent_stays_where_there_is_a_place(self) -> None:
        world = World(lambda number: 0.2 + 0.6 * (number == 1))
        engine = world.engine(proposals_per_round=1, population_size=2)
        world.train(engine, 20)
        assert members(engine) == ["Note 0.", "Note 1."]

    def test_the_member_of_the_lowest_weight_makes_room_and_not_the_parent(self) -> None:
        world = World(lambda number: {0: 0.4, 50: 0.0, 1: 0.9}.get(number, 0.0))
        engine = world.engine(["Note 0.", "Note 50."], population_size=2, proposals_per_round=1)
        world.train(engine, 20)
        assert members(engine) == ["Note 0.", "Note 1."]
        assert engine.best.text == "Note 1."

    def test_of_one_member_the_parent_makes_room(self) -> None:
        world = World(lambda number: 0.2 + 0.6 * (number >= 2))
        engine = world.engine(population_size=1)
        world.train(engine, 30)
        assert list(engine.population.members) == [engine.best]
        assert world.chance(int(engine.best.text[5:-1])) == 0.8
        pruned = [event["candidates"] for event in engine.log if event["event"] == "pruned"]
        assert pruned[0] == ["c0"]

    def test_pinned_members_make_no_room(self) -> None:
        world = World(lambda number: {0: 0.4, 50: 0.0}.get(number, 0.9))
        engine = world.engine(["Note 0.", "Note 50."], population_size=2)
        engine.pin("c1")
        world.train(engine, 30)
        assert members(engine)[0] == "Note 50."
        assert engine.best.id not in ("c0", "c1")
        assert len(members(engine)) == 2

    def test_pinned_members_that_take_all_places_end_the_evolution(self) -> None:
        world = World(lambda number: 0.2 + 0.6 * (number > 0))
        engine = world.engine(population_size=1)
        engine.pin("c0")
        world.train(engine, 20)
        assert members(engine) == ["Note 0."]
        assert world.written == 0
        assert notices(engine) == (
            "no instruction is proposed at this step: all places of the population (1) are taken "
            "by pinned members; raise population_size, or unpin a member"
        )
        assert engine.pin("c0", False) == ""
        world.train(engine, 20)
        assert world.chance(int(engine.best.text[5:-1])) == 0.8

    def test_one_place_leaves_extra_rollouts_nothing_to_admit_and_this_is_said(self) -> None:
        world = World()
        engine = world.engine(population_size=1, accept="not-worse", evolve_every=2)
        world.train(engine, 12)
        assert world.written == 0
        assert "are taken by the best, the parents, pinned members and" in notices(engine)
        assert notices(engine).count("no instruction is proposed") == 1

    def test_members_that_are_pinned_during_a_trial_keep_their_places(self) -> None:
        world = World(lambda number: 0.2 + 0.6 * (number > 0))
        engine = world.engine(population_size=1, proposals_per_round=2)
        world.begin_trials(engine)
        assert on_trial(engine) == ["c1", "c2"]
        engine.pin("c0")
        world.train(engine, 80)
        assert members(engine) == ["Note 0."]
        assert on_trial(engine) == []
        assert {event["admitted"] for event in decisions(engine).values()} == {False}

    def test_a_pruned_incumbent_gives_way_and_the_trials_go_on(self) -> None:
        world = World(lambda number: 0.4)
        engine = world.engine()
        other, _ = engine.add({"instruction": "Note 90."})
        assert other is not None
        world.train(engine, 2)
        trials = on_trial(engine)
        assert trials
        assert engine.retire("c0") == ""
        world.train(engine, 1)
        assert engine.best.id == other.id
        assert set(on_trial(engine)) <= set(trials)
        world.train(engine, 120)
        assert not set(on_trial(engine)) & set(trials)


class TestPlaces:
    """Share of the rollouts, and whose turn it is."""

    def test_several_on_trial_have_three_of_five_and_the_incumbent_has_one(self) -> None:
        world = World()
        engine = world.engine(["Note 0.", "Note 50."], verifier=Waiting())
        steps = world.train(engine, 9)[1:]
        trials = set(on_trial(engine))
        assert len(trials) == 6
        for candidates in (own for step in steps for own in of_questions(step)):
            assert len(set(candidates) & trials) == 3
            assert len(candidates) == 5
            assert "c0" in candidates
        drawn = {name for step in steps for own in of_questions(step) for name in own}
        assert "c1" in drawn  # the sampler draws the rest

    def test_one_alone_has_two_of_five(self) -> None:
        world = World()
        engine = world.engine(verifier=Waiting(), proposals_per_round=1)
        for candidates in of_questions(world.train(engine, 3)[2]):
            assert Counter(candidates) == {"c1": 2, "c0": 3}

    @pytest.mark.parametrize(
        ("share", "rollouts", "places"), [(0.01, 5, 1), (0.99, 5, 4), (0.6, 2, 1), (0.6, 4, 2)]
    )
    def test_leave_both_sides_one(self, share: float, rollouts: int, places: int) -> None:
        world = World()
        engine = world.engine(verifier=Waiting(share), rollouts=rollouts)
        for candidates in of_questions(world.train(engine, 3)[2]):
            assert sum(name != "c0" for name in candidates) == places
            assert len(candidates) == rollouts

    def test_candidates_on_trial_take_turns_in_the_order_of_their_proposals(self) -> None:
        world = World(questions=7)
        engine = world.engine(verifier=Waiting(), proposals_per_round=4)
        world.begin_trials(engine)
        steps = world.train(engine, 11)
        trials = on_trial(engine)
        turns = [
            one.candidate.id for step in steps for one in step if one.candidate.id in set(trials)
        ]
        assert len(turns) > 40
        assert turns == [trials[turn % 4] for turn in range(len(turns))]

    @pytest.mark.parametrize("questions", [1, 7, 10, 16])
    def test_where_a_question_has_one_candidate_trials_have_three_of_five_questions(
        self, questions: int
    ) -> None:
        """Whatever a step is, and where questions are asked one by one, as the gateway does."""
        world = World(questions=questions)
        engine = world.engine(verifier=Waiting(), several=False, proposals_per_round=4)
        world.begin_trials(engine)
        steps = world.train(engine, 60 // questions + 1)
        trials = on_trial(engine)
        names = [own for step in steps for (own,) in of_questions(step)]
        for block in range(60 // 5):
            drawn = Counter(names[5 * block : 5 * block + 5])
            turns = [trials[turn % 4] for turn in range(3 * block, 3 * block + 3)]
            assert drawn == Counter(["c0", "c0", *turns])
        assert {one.rollouts for step in steps for one in step} == {5}

    def test_one_alone_has_two_of_five_questions(self) -> None:
        world = World(questions=10)
        engine = world.engine(verifier=Waiting(), several=False, proposals_per_round=1)
        world.begin_trials(engine)
        names = Counter(own for (own,) in of_questions(world.train(engine, 1)[0]))
        assert names == {"c1": 4, "c0": 6}


class TestDecisions:
    def test_resumes_exactly_in_the_middle_of_a_trial(self) -> None:
        def run(kill: int | None, several: bool) -> str:
            world = World()
            engine = world.engine(several=several)
            for step in range(30):
                if step == kill:
                    assert on_trial(engine)
                    state = json.loads(json.dumps(engine.state_dict()))
                    engine = world.engine(several=several, log=engine.log)
                    engine.load_state_dict(state)
                world.train(engine, 1)
            return json.dumps([engine.state_dict(), list(engine.log)], sort_keys=True)

        assert run(None, True) == run(2, True) == run(8, True)
        assert run(None, False) == run(2, False) == run(8, False)

    def test_questions_of_one_candidate_decide_without_an_extra_rollout(self) -> None:
        world = World(lambda number: 0.2 + 0.6 * (number >= 2))
        engine = world.engine(several=False)
        steps = world.train(engine, 60)
        assert {len(own) for step in steps for own in of_questions(step)} == {1}
        assert world.chance(int(engine.best.text[5:-1])) == 0.8
        assert world.extra_rollouts == engine.verification_rollouts == 0

    @pytest.mark.parametrize(
        "world",
        [World(lambda number: 0.0), World(lambda number: 1.0), World(repeat=True, questions=1)],
        ids=["nothing solved", "everything solved", "one question"],
    )
    def test_a_trial_that_can_show_nothing_ends(self, world: World) -> None:
        engine = world.engine(proposals_per_round=2)
        world.train(engine, 1)
        world.train(engine, 1200 if world.repeat else 60)
        assert engine.generation_stats.generations >= 2
        assert members(engine) == ["Note 0."]
        assert all(event["reason"] for event in decisions(engine).values())

    def test_a_verifier_that_never_decides_is_overruled_with_a_notice(self) -> None:
        world = World()
        engine = world.engine(verifier=Impatient(), proposals_per_round=2)
        world.begin_trials(engine)
        before = on_trial(engine)
        world.train(engine, 20)
        assert not set(before) & set(on_trial(engine))
        assert f"{before[0]} is rejected: undecided after 50 rollouts" in notices(engine)
        assert "its lead over c0 is" in decisions(engine)[before[0]]["reason"]

    @pytest.mark.parametrize("scale", [100.0, -3.0])
    def test_rewards_beyond_their_range_decide_and_break_nothing(self, scale: float) -> None:
        world = World(lambda number: 0.3 + 0.4 * (number >= 3), scale=scale)
        engine = world.engine()
        world.train(engine, 60)
        is_high = [int(text[5:-1]) >= 3 for text in members(engine)[1:]]
        assert all(is_high) if scale > 0 else not any(is_high)
        assert (int(engine.best.text[5:-1]) >= 3) == (scale > 0)

    def test_the_range_of_rewards_survives_a_resume(self) -> None:
        world = World(lambda number: 1.0, scale=100.0)
        engine = world.engine()
        world.train(engine, 1)
        resumed = world.engine(log=engine.log)
        resumed.load_state_dict(json.loads(json.dumps(engine.state_dict())))
        assert resumed.generations.scale().rewards == (0.0, 100.0)

    def test_of_two_that_are_equally_better_the_older_is_admitted(self) -> None:
        world = World(lambda number: float(number in (1, 2)))
        engine = world.engine(proposals_per_round=2)
        world.train(engine, 60)
        admitted = {name: event["admitted"] for name, event in decisions(engine).items()}
        assert [admitted["c1"], admitted["c2"]] == [True, False]
        assert engine.best.text == "Note 1."

    def test_a_candidate_that_was_never_drawn_is_not_decided(self) -> None:
        world = World(questions=1)
        engine = world.engine(proposals_per_round=6)
        world.begin_trials(engine)
        steps = world.train(engine, 1)
        drawn = {one.candidate.id for step in steps for one in step}
        never = set(on_trial(engine)) - drawn
        assert never
        assert not never & set(decisions(engine))

    def test_candidates_that_are_still_on_trial_are_named_at_the_end_of_a_training(self) -> None:
        world = World()
        engine = world.engine(verifier=Waiting())
        world.train(engine, 60)
        assert engine.generation_stats.generations == 1
        engine.report_end()
        assert all(name in notices(engine) for name in on_trial(engine))
        assert len(on_trial(engine)) == 6


class Twice(Waiting):
    """Verifier that decides twice about the first candidate."""

    def verify(self, request: VerificationRequest) -> Verification:
        results = super().verify(request).results
        return Verification((*results, replace(results[0], decision=ADMITTED)))


class Stranger(Waiting):
    """Verifier that decides about a candidate that was not proposed."""

    def verify(self, request: VerificationRequest) -> Verification:
        assert request.incumbent is not None
        result = VerificationResult(request.incumbent, None, None, 0)
        return Verification((*super().verify(request).results, result))


class Silent(Waiting):
    """Verifier that leaves out the first candidate."""

    def verify(self, request: VerificationRequest) -> Verification:
        return Verification(super().verify(request).results[1:])


class Inventive(Waiting):
    """Verifier with a decision of its own."""

    def verify(self, request: VerificationRequest) -> Verification:
        results = super().verify(request).results
        decision: Any = "perhaps"
        return Verification(tuple(replace(one, decision=decision) for one in results))


class Greedy(Waiting):
    """Verifier that admits more than there are places."""

    def verify(self, request: VerificationRequest) -> Verification:
        results = super().verify(request).results
        return Verification(tuple(replace(one, decision=ADMITTED) for one in results))


class Shareless(Waiting):
    """Verifier that leaves candidates on trial and has no share."""

    def __init__(self) -> None:
        self.share = 0.0


class TestWrongVerifiers:
    @pytest.mark.parametrize(
        ("verifier", "message"),
        [
            (Twice(), r"it judged \['c1', 'c1', 'c2'\]; required: one result for each"),
            (Stranger(), r"it judged \['c0', 'c1', 'c2'\]; required: one result for each"),
            (Silent(), r"it judged \['c2'\]; required: one result for each"),
            (Inventive(), "it decided .'perhaps'.; required: 'admitted', 'rejected' or 'on trial'"),
            (Greedy(), "it admitted 2; required: at most 1"),
            (Shareless(), "left candidates on trial and its share is 0"),
        ],
        ids=lambda given: type(given).__name__ if isinstance(given, Verifier) else "",
    )
    def test_are_named_when_they_decide(self, verifier: Verifier, message: str) -> None:
        world = World()
        settings: dict[str, Any] = {} if verifier.share else {"evolve_every": 1}
        size = 3 if not verifier.share else 1
        engine = world.engine(
            verifier=verifier, proposals_per_round=2, population_size=size, **settings
        )
        with pytest.raises(ComponentError, match=message) as raised:
            world.train(engine, 3)
        assert type(verifier).__name__ in str(raised.value)

    @pytest.mark.parametrize("mistaken", [Twice, Stranger, Silent, Inventive])
    def test_are_named_after_a_step_too(self, mistaken: type[Verifier]) -> None:
        class Late(Waiting):
            def verify(self, request: VerificationRequest) -> Verification:
                verifier = mistaken() if request.rollout is None else Waiting()
                return verifier.verify(request)

        world = World()
        engine = world.engine(verifier=Late())
        world.train(engine, 1)
        engine.evolve(world.roll_extra)
        assignments = engine.ask(world.batch(), 1)
        with pytest.raises(ComponentError, match="Late"):
            engine.tell(world.roll(assignments))

    @pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
    def test_a_share_that_leaves_nothing_is_refused_at_the_start(self, share: float) -> None:
        class Selfish(Waiting):
            def __init__(self) -> None:
                self.share = share

        with pytest.raises(InputError, match=r"share of the verifier Selfish is .*required: 0, or"):
            World().engine(verifier=Selfish())

    def test_one_that_admits_what_leads_by_nothing_prunes_no_incumbent(self) -> None:
        world = World(lambda number: 0.4)
        engine = world.engine(verifier=AdmittingFirst(), population_size=2)
        world.train(engine, 8)
        assert engine.best.id == "c0"
        assert "Note 0." in members(engine)
        assert len(members(engine)) == 2


class Person:
    """Person who approves admissions by text.

    Attributes:
        refused: texts that are not approved.
        asked: texts that were asked about.
    """

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.asked: list[str] = []

    def poll(self) -> None:
        pass

    def filter_approved(self, admitted: Sequence[VerificationResult]) -> list[VerificationResult]:
        self.asked += [result.candidate.text for result in admitted]
        return [result for result in admitted if result.candidate.text not in self.refused]


class TestApproval:
    def test_waits_in_tell_for_candidates_that_are_admitted_after_their_trial(self) -> None:
        world = World(lambda number: 0.2 + 0.6 * (number == 1) + 0.7 * (number == 7))
        engine = world.engine()
        engine.supervisor = person = Person("Note 1.")
        for _ in range(20):
            if person.asked:
                break
            engine.evolve(world.roll_extra)
            assert not person.asked
            world.train(engine, 1)
        assert person.asked == ["Note 1."]
        assert members(engine) == ["Note 0."]
        assert decisions(engine)["c1"]["reason"] == "a person refused it"
        assert not decisions(engine)["c1"]["admitted"]
        assert engine.generation_stats.admitted_total == 0
        world.train(engine, 30)
        assert person.asked == ["Note 1.", "Note 7."]
        assert engine.best.text == "Note 7."

    def test_waits_in_evolve_for_candidates_that_are_admitted_immediately(self) -> None:
        world = World()
        engine = world.engine(verifier=Unverified(), evolve_every=1, proposals_per_round=2)
        engine.supervisor = person = Person("Note 1.")
        world.train(engine, 1)
        engine.evolve(world.roll_extra)
        assert person.asked[:2] == ["Note 1.", "Note 2."]
        assert "Note 1." not in members(engine)
        assert "Note 2." in members(engine)


class TestSharing:
    @pytest.mark.parametrize(
        ("rollouts", "candidates", "grouping"),
        [(5, 5, "question"), (8, 4, "question"), (7, 1, "candidate")],
    )
    def test_auto_takes_what_divides_the_rollouts_of_a_question(
        self, rollouts: int, candidates: int, grouping: str
    ) -> None:
        engine = World().engine(rollouts=rollouts)
        assert engine.selection.candidates_per_question == candidates
        assert engine.grouping == grouping

    def test_a_number_that_nothing_divides_is_named_and_the_trials_have_own_questions(self) -> None:
        world = World()
        engine = world.engine(rollouts=7)
        with pytest.warns(EvopromptWarning, match="multiple of 5"):
            world.train(engine, 2)
        assert on_trial(engine)
        assert world.extra_rollouts == 0

    def test_auto_leaves_a_lone_instruction_alone(self) -> None:
        engine = Engine(["Be brief."])
        assert engine.divide_rollouts(5, "num_generations") == 5
        assert engine.grouping == "candidate"


class TestAccounts:
    """What is counted of a trial, when it ends, and what is written of it."""

    def test_the_error_of_a_trial_has_one_degree_of_freedom_less_than_rewards(self) -> None:
        trials = Trials(trials=[TrialCandidate(candidate(1))])
        rewards = (1.0, 0.0, 1.0, 0.0)
        trials.observe([trajectory(candidate(1), question(n), r) for n, r in enumerate(rewards)])
        result = trials.trials[0].result
        assert (result.mean, result.scored) == (0.5, 4)
        assert result.stderr == pytest.approx(math.sqrt(0.25 / 3))

    def test_the_mean_reward_follows_by_a_tenth(self) -> None:
        trials = Trials()
        for reward in (0.0, 1.0):
            trials.observe([trajectory(candidate(0), question(1), reward)])
        assert trials.mean_reward == pytest.approx(0.1)

    def test_a_trial_ends_with_the_last_rollout_of_its_limit(self) -> None:
        world = World()
        engine = world.engine(verifier=Impatient(), proposals_per_round=2)
        world.begin_trials(engine)
        first, second = engine.generations.trials.trials
        first.scored, second.scored = 50, 49
        (decided,) = engine.generations.decide_trials(engine.step, list)
        assert decided.candidate == first.candidate
        assert "undecided after 50 rollouts" in decided.reason
        assert on_trial(engine) == [second.candidate.id]

    def test_rejected_ones_are_reported_once_and_refused_together(self) -> None:
        world = World()
        engine = world.engine(verifier=RejectingFirst(), proposals_per_round=3)
        world.begin_trials(engine)
        trials = on_trial(engine)
        refused: list[int] = []
        for _ in trials:
            world.step += 1
            engine.tell(world.roll(engine.ask(world.batch(), 1)))
            refused.append(engine.generation_stats.generations_refused)
        assert refused == [0, 0, 1]
        events = Counter(e["candidate"] for e in engine.log if e["event"] == "verified")
        assert events == dict.fromkeys(trials, 1)
        assert {event["reason"] for event in decisions(engine).values()} == {"first"}

    def test_the_weights_of_rejected_ones_are_forgotten(self) -> None:
        world = World()
        engine = world.engine(verifier=RejectingFirst(), proposals_per_round=2)
        world.begin_trials(engine)
        first, second = engine.generations.trials.candidates
        engine.tell(world.roll(engine.ask(world.batch(), 1)))
        attributor = engine.selection.attributor
        assert on_trial(engine) == [second.id]
        assert attributor.stats(first).groups == 0
        assert attributor.stats(second).groups > 0
