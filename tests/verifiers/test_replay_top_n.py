"""The best on replayed questions are admitted, by brute force."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.replay import ReplayBuffer
from evoprompt.roles import VerificationRequest, Verifier
from evoprompt.testing import ScriptedPolicy, VerifierSuite
from evoprompt.testing.samples import candidate, candidate_stats, question, trajectory
from evoprompt.types import Assignment, Verification
from evoprompt.verifiers import ReplayTopN

PROPOSED = [candidate(number, ["c0"]) for number in range(2, 6)]


class TestTopConforms(VerifierSuite):
    def build(self) -> Verifier:
        return ReplayTopN(12, accept="top")


def replay(questions: int = 8) -> ReplayBuffer:
    found = ReplayBuffer()
    found.add(1, [trajectory(candidate(0), question(n), 0.0) for n in range(questions)])
    return found


def verify(
    verifier: ReplayTopN, rewards: Mapping[str, float | None], slots: int, parents: int = 1
) -> tuple[Verification, ScriptedPolicy]:
    """Verifies c2 to c5, each with its reward on all questions; c0 and c1 are the parents."""
    policy = ScriptedPolicy(lambda assignment: rewards[assignment.candidate.id])
    known = candidate_stats([0.5] * parents)
    return verifier.verify(
        VerificationRequest(PROPOSED, known, replay(), policy, slots, random.Random(0))
    ), policy


def admitted(found: Verification) -> list[str]:
    return [result.candidate.id for result in found.results if result.is_admitted]


scores = st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0])


class TestWhoIsAdmitted:
    @given(
        rewards=st.fixed_dictionaries({f"c{number}": scores for number in range(6)}),
        slots=st.integers(0, 5),
        parents=st.integers(1, 2),
        accept=st.sampled_from(["top", "not-worse"]),
    )
    def test_the_best_scored_ones_not_below_the_best_parent(
        self, rewards: dict[str, float | None], slots: int, parents: int, accept: str
    ) -> None:
        verifier = ReplayTopN(3, "top" if accept == "top" else "not-worse")
        found, _ = verify(verifier, rewards, slots, parents)
        scored = {one.id: reward for one in PROPOSED if (reward := rewards[one.id]) is not None}
        bars = [reward for n in range(parents) if (reward := rewards[f"c{n}"]) is not None]
        if accept == "not-worse" and bars:
            scored = {name: reward for name, reward in scored.items() if reward >= max(bars)}
        expected = sorted(scored, key=lambda name: -scored[name])[: min(slots, 2)]
        assert admitted(found) == expected
        assert all(bool(v.reason) != v.is_admitted for v in found.results)

    def test_reasons_say_why_not(self) -> None:
        found, _ = verify(
            ReplayTopN(3), {"c0": 0.5, "c2": 0.5, "c3": 1.0, "c4": 0.25, "c5": None}, slots=1
        )
        assert [(result.candidate.id, result.reason) for result in found.results] == [
            ("c3", ""),
            ("c2", "no free place was left in the population"),
            ("c4", "mean reward 0.250 is below the best parent's 0.500"),
            ("c5", "no rollout of it could be scored"),
        ]

    @pytest.mark.parametrize(
        ("child", "parent", "reason"),
        [
            (0.5, 0.5, ""),
            (0.25, 0.5, "mean reward 0.250 is below the best parent's 0.500"),
            (0.5, None, "it was tried alone, and no rollout of a parent could be scored"),
        ],
    )
    @pytest.mark.parametrize("accept", ["top", "not-worse"])
    def test_one_alone_is_compared_with_its_parent(
        self, accept: Any, child: float, parent: float | None, reason: str
    ) -> None:
        verifier = ReplayTopN(3, accept)
        policy = ScriptedPolicy(lambda a: parent if a.candidate.id == "c0" else child)
        found = verifier.verify(
            VerificationRequest(
                PROPOSED[:1], candidate_stats([0.5]), replay(), policy, 9, random.Random(0)
            )
        )
        assert [(result.is_admitted, result.reason) for result in found.results] == [
            (not reason, reason)
        ]
        assert len(policy.trajectories) == verifier.most_rollouts(1, 1) == 6


class TestWhatIsRolledOut:
    def test_everybody_gets_the_same_questions_once(self) -> None:
        rewards = {f"c{number}": 0.5 for number in range(6)}
        _, policy = verify(ReplayTopN(5), rewards, slots=4, parents=2)
        asked: dict[str, list[str]] = {}
        for assignment in policy.assignments:
            assert (assignment.purpose, assignment.rollouts) == ("verify", 1)
            asked.setdefault(assignment.candidate.id, []).append(assignment.question.id)
        assert list(asked) == [f"c{number}" for number in range(6)]
        assert len({tuple(questions) for questions in asked.values()}) == 1
        assert len(set(asked["c0"])) == 5

    def test_parents_are_rolled_out_only_for_comparison(self) -> None:
        rewards = {f"c{number}": 0.5 for number in range(6)}
        found, policy = verify(ReplayTopN(5, accept="top"), rewards, slots=4, parents=2)
        assert {a.candidate.id for a in policy.assignments} == {"c2", "c3", "c4", "c5"}
        assert found.parents == ()

    @pytest.mark.parametrize(
        ("most", "questions"), [(None, 40), (1000, 40), (100, 20), (52, 10), (0, 10)]
    )
    def test_rollouts_beyond_the_most_are_saved_and_this_is_said(
        self, most: int | None, questions: int
    ) -> None:
        """Four candidates and a parent share them; ten questions are asked in any case."""
        policy = ScriptedPolicy(lambda assignment: 0.5)
        found = ReplayTopN(40).verify(
            VerificationRequest(
                PROPOSED,
                candidate_stats([0.5]),
                replay(60),
                policy,
                4,
                random.Random(0),
                max_rollouts=most,
            )
        )
        assert len(policy.assignments) == 5 * questions
        said = f"was verified by {questions} rollouts and not by 40" if questions < 40 else ""
        assert said in found.notice
        assert bool(found.notice) == (questions < 40)

    def test_without_a_rollout_function_nothing_is_decided(self) -> None:
        request = VerificationRequest(
            PROPOSED, candidate_stats([0.5]), replay(), None, 1, random.Random(0)
        )
        with pytest.raises(ValueError, match="there is no rollout function; required: one"):
            ReplayTopN(3).verify(request)


class TestVerdicts:
    def test_say_mean_and_standard_error_by_closed_form(self) -> None:
        rng = random.Random(1)
        rewards = [rng.random() for _ in range(6)]

        def reward(assignment: Assignment) -> float | None:
            number = int(assignment.question.id[1:])
            return None if number >= 6 else rewards[number]

        found = ReplayTopN(8, accept="top").verify(
            VerificationRequest(
                PROPOSED[:1],
                candidate_stats([0.0]),
                replay(8),
                ScriptedPolicy(reward),
                1,
                random.Random(0),
            )
        )
        (result,) = found.results
        assert result.scored == 6
        assert result.mean == pytest.approx(fmean(rewards))
        assert result.stderr == pytest.approx(stdev(rewards) / math.sqrt(6))
