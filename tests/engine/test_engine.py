"""The engine's three verbs, alone and in the order of the paper's algorithm."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from numbered_engine import (
    QUESTIONS,
    alive,
    engine,
    kinds,
    nothing,
    number_of,
    several,
    weights,
)

from evoprompt.engine import Engine
from evoprompt.support.errors import (
    AlreadyToldError,
    EvopromptWarning,
    InputError,
    UnknownAssignmentError,
)
from evoprompt.testing import FakeTrainer, ScriptedPolicy
from evoprompt.types import (
    Assignment,
    Candidate,
    StepReport,
    Trajectory,
)

OTHER, FIRST = Candidate("c0", {"instruction": "Another one."}), QUESTIONS[0]


def told(assignments: Sequence[Assignment], *rewards: float | None) -> list[Trajectory]:
    """One trajectory a reward for each assignment."""
    return [Trajectory(a, reward, n) for a in assignments for n, reward in enumerate(rewards)]


class TestStart:
    @pytest.mark.parametrize(
        ("seeds", "evolving", "numbers", "due"),
        [
            (1, True, {"preset": "inspo"}, True),
            (6, True, {"preset": "inspo"}, True),
            (7, True, {"preset": "inspo"}, False),
            (1, False, {"preset": "inspo"}, False),
            (1, True, {}, False),
            (1, True, {"fill_at_start": True}, True),
        ],
    )
    def test_the_population_is_filled_at_once_where_that_is_wished(
        self, seeds: int, evolving: bool, numbers: Mapping[str, Any], due: bool
    ) -> None:
        one = engine(*several(seeds), evolving=evolving, **numbers)
        assert one.evolution_due == due
        report = one.evolve(ScriptedPolicy(nothing))
        assert report.due == due
        assert report.rollouts == 0
        assert alive(one) == [f"c{n}" for n in range(7 if due else seeds)]


class TestAsk:
    @pytest.mark.parametrize(
        ("grouping", "each", "groups"),
        [("candidate", 1, 8), ("candidate", 3, 24), ("question", 3, 8)],
    )
    def test_every_question_gets_its_candidates_in_order(
        self, grouping: str, each: int, groups: int
    ) -> None:
        one = engine(*several(4), grouping=grouping, candidates_per_question=each)
        assignments = one.ask(QUESTIONS, rollouts=5)
        assert [a.question for a in assignments] == [q for q in QUESTIONS for _ in range(each)]
        assert len({assignment.group for assignment in assignments}) == groups
        assert len({assignment.id for assignment in assignments}) == 8 * each
        assert {(a.rollouts, a.purpose) for a in assignments} == {(5, "train")}
        for start in range(0, 8 * each, each):
            block = assignments[start : start + each]
            assert len({assignment.candidate.id for assignment in block}) == each

    def test_draws_and_chances_are_logged_under_the_step_to_come(self) -> None:
        one = engine(*several(2))
        assignments = one.ask(QUESTIONS, 1)
        *_, event = one.log
        assert event["step"] == 1
        assert event["draws"] == Counter(a.candidate.id for a in assignments)
        assert event["probabilities"] == {"c0": 0.5, "c1": 0.5}

    @pytest.mark.parametrize(("count", "rollouts"), [(0, 5), (8, 0), (8, -1)])
    def test_an_empty_batch_is_refused(self, count: int, rollouts: int) -> None:
        with pytest.raises(
            InputError, match=f"{rollouts} rollouts of {count} questions were requested"
        ):
            engine().ask(QUESTIONS[:count], rollouts)


class TestTell:
    def test_reports_a_step(self) -> None:
        one = engine()
        assignments = one.ask(QUESTIONS[:2], 3)
        with pytest.warns(EvopromptWarning, match="2 of 6 rollouts of step 1 have no reward"):
            report = one.tell(told(assignments, 1.0, 0.0, None))
        assert report == StepReport(1, 6, 2, 0.5)
        assert (one.step, one.training_rollouts, one.rollouts) == (1, 6, 6)
        *_, event, _ = one.log
        assert (event["event"], event["step"], event["reward"]) == ("step_completed", 1, 0.5)
        assert (event["rollouts"], event["unscored"]) == (6, 2)
        assert event["weights"] == {"c0": 0.5}

    def test_a_failed_rollout_is_no_evidence_against_an_instruction(self) -> None:
        one = engine(min_groups=1)
        one.tell(told(one.ask(QUESTIONS[:1], 2), 1.0, 1.0))
        with pytest.warns(EvopromptWarning, match="2 of 2 rollouts of step 2 have no reward"):
            report = one.tell(told(one.ask(QUESTIONS[:1], 2), None, None))
        assert report.reward is None
        assert weights(one) == {"c0": 1.0}
        assert [record.scored for record in one.replay.records] == [2]

    def test_parts_told_later_count_for_the_step_they_are_told_in(self) -> None:
        one = engine(preset="inspo", fill_at_start=False)
        early, late = one.ask(QUESTIONS[:2], 2)
        one.tell([Trajectory(late, 1.0, 1), Trajectory(early, 1.0, 0)])
        one.tell([Trajectory(early, 0.0, 1), Trajectory(late, 0.0, 0)])
        assert not one.assignments.pending
        assert weights(one) == {"c0": 0.5}

    @pytest.mark.parametrize(
        ("break_", "error"),
        [
            (lambda last: Trajectory(replace(last, id="a99"), 1.0), UnknownAssignmentError),
            (lambda last: Trajectory(replace(last, id="c0/0"), 1.0), UnknownAssignmentError),
            (lambda last: Trajectory(replace(last, id=""), 1.0), UnknownAssignmentError),
            (lambda last: Trajectory(replace(last, candidate=OTHER), 1.0), UnknownAssignmentError),
            (lambda last: Trajectory(replace(last, question=FIRST), 1.0), UnknownAssignmentError),
            (lambda last: Trajectory(replace(last, id="a0"), 1.0), AlreadyToldError),
            (lambda last: Trajectory(last, 1.0, 0), AlreadyToldError),
            (lambda last: Trajectory(last, 1.0, 7), InputError),
            (lambda last: Trajectory(last, 1.0, -1), InputError),
            (lambda last: Trajectory(last, math.nan, 1), InputError),
            (lambda last: Trajectory(last, math.inf, 1), InputError),
            (lambda last: Trajectory(last, 1.0, 1, (), {"turns": math.nan}), InputError),
        ],
    )
    def test_after_an_error_nothing_has_changed(
        self, break_: Callable[[Assignment], Trajectory], error: type[Exception]
    ) -> None:
        one = engine(prune_every=2, evolve_every=2)
        assignments = one.ask(QUESTIONS, 2)
        one.tell(told(assignments[:7], 1.0, 0.0) + told(assignments[7:], 1.0))
        fresh = one.ask(QUESTIONS[:2], 1)
        before, logged = one.state_dict(), len(one.log)
        with pytest.raises(error):
            one.tell([*told(fresh, 1.0), break_(assignments[7])])
        with pytest.raises(error):
            one.tell([break_(assignments[7]), *told(fresh, 1.0)])
        with pytest.raises(AlreadyToldError):
            one.tell([*told(fresh, 1.0), *told(fresh[:1], 1.0)])
        assert one.state_dict() == before
        assert len(one.log) == logged
        assert one.tell([*told(fresh, 1.0), Trajectory(assignments[7], 1.0, 1)]).step == 2

    def test_late_results_of_a_pruned_candidate_are_remembered_but_not_attributed(self) -> None:
        one = engine(*several(2), preset="inspo", fill_at_start=False, prune_every=1)
        assignments = one.ask(QUESTIONS * 2, 2)
        report = one.tell([Trajectory(a, 1.0 - number_of(a), 0) for a in assignments])
        assert report.pruned == ("c1",)
        late = [a for a in assignments if a.candidate.id == "c1"]
        assert one.tell([Trajectory(a, 0.0, 1) for a in late]).trajectories == len(late)
        assert weights(one) == {"c0": 1.0}
        assert sum(t.candidate.id == "c1" for t in one.replay) == 2 * len(late)
        assert one.selection.attributor.stats(late[0].candidate).groups == 0

    def test_assignments_nobody_tells_are_forgotten(self) -> None:
        one = engine(evolving=False)
        stale = one.ask(QUESTIONS, 1)
        for _ in range(101):
            one.tell([])
        assert not one.assignments.pending
        with pytest.raises(AlreadyToldError, match="forgotten after 100 steps"):
            one.tell(told(stale, 1.0))


class TestTheAlgorithmOfThePaper:
    def test_sizes_are_7_4_2_1_7_and_pruning_comes_before_evolution(self) -> None:
        one = engine(preset="inspo")
        policy = ScriptedPolicy(lambda a: float(number_of(a) % 2))
        trainer = FakeTrainer(policy, QUESTIONS)
        one.evolve(policy)
        sizes = [len(alive(one))]
        for _ in range(3):
            trainer.train(one, 5)
            sizes.append(len(alive(one)))
        assert one.evolution_due
        one.evolve(policy)
        sizes.append(len(alive(one)))
        assert sizes == [7, 4, 2, 1, 7]
        at_15 = [
            kind for kind, event in zip(kinds(one), one.log, strict=True) if event["step"] == 15
        ]
        capped = "notice"  # verification takes a fifth of the training rollouts at most
        tried = [
            *["proposed"] * 12,
            capped,
            *["verified"] * 12,
            "rollout_samples",
            "candidates_disagreed",
        ]
        assert at_15 == ["questions_assigned", "step_completed", "pruned", *tried, "evolved"]


class TestExtraRollouts:
    def grown(self, policy: ScriptedPolicy, **numbers: Any) -> Engine:
        """An engine that has trained up to its first generation."""
        one = engine(verify_questions=6, accept="not-worse", **numbers)
        FakeTrainer(policy, QUESTIONS).train(one, 15)
        return one

    def test_adjusted_weights_keep_what_they_knew_and_take_the_verification_in(self) -> None:
        policy = ScriptedPolicy(lambda a: number_of(a) / 10)
        one = self.grown(policy)
        seen = one.candidate_stats()[0].groups
        report = one.evolve(policy)
        groups = {stats.candidate.id: stats.groups for stats in one.candidate_stats()}
        assert groups == {
            "c0": seen + 6 * report.rounds,
            **{f"c{n}": 6 for n in range(7, 13)},
        }
        found = weights(one)
        assert sorted(found, key=lambda name: found[name]) == [f"c{n}" for n in (0, *range(7, 13))]
        assert one.selection.leader.id == "c12"

    def test_where_nobody_is_admitted_everything_stays(self) -> None:
        policy = ScriptedPolicy(lambda a: float(a.candidate.id == "c0"))
        one = self.grown(policy)
        before = one.candidate_stats()
        report = one.evolve(policy)
        assert (report.due, report.admitted, report.rounds) == (True, (), 5)
        assert one.candidate_stats() == before
        assert not one.evolution_due
        assert kinds(one)[-1] == "evolved"

    def test_the_unmeasured_are_neither_pruned_nor_replaced(self) -> None:
        one = engine(
            *several(4),
            accept="not-worse",
            temperature=0.001,
            prune_every=3,
            evolve_every=3,
            weights="window",
        )
        for _ in range(3):
            by_hand = [a for a in one.ask(QUESTIONS * 2, 1) if a.candidate.id in ("c0", "c1")]
            one.tell([Trajectory(a, 1.0 - number_of(a)) for a in by_hand])
        assert alive(one) == ["c0", "c2", "c3"]
        assert weights(one) == {"c0": 1.0, "c2": 1.0, "c3": 1.0}
        assert one.best.id == "c0"
        one.evolve(ScriptedPolicy(lambda a: 1.0))
        assert alive(one) == ["c0", "c2", "c3", "c4", "c5", "c6", "c7"]


def test_no_verb_touches_the_global_generator() -> None:
    random.seed(5)
    before = random.getstate()
    one = engine(preset="inspo")
    FakeTrainer(ScriptedPolicy(nothing), QUESTIONS).train(one, 16)
    assert random.getstate() == before


@pytest.mark.parametrize("preset", ["default", "inspo"])
def test_the_last_digit_of_a_reward_decides_nothing(preset: str) -> None:
    """0.1 + 0.2 is more than 0.3 by the last digit; of equal ones the oldest stay."""
    one = engine(*several(7), preset=preset, prune_every=5, evolve_every=50)
    for step in range(1, 6):
        asked = one.ask(QUESTIONS * 3, 2)
        rewards = [0.1 + 0.2 if number_of(a) > 3 else 0.3 for a in asked for _ in range(2)]
        told = [Trajectory(a, rewards[2 * n + r], r) for n, a in enumerate(asked) for r in range(2)]
        assert one.tell(told).pruned == (("c4", "c5", "c6") if step == 5 else ())
