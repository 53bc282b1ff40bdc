"""Children and parent on the same questions: who is admitted, how often wrongly, at what cost."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from evoprompt.replay import ReplayBuffer
from evoprompt.roles import RolloutFn, VerificationRequest
from evoprompt.testing import ScriptedPolicy
from evoprompt.testing.samples import candidate, candidate_stats, question, trajectory
from evoprompt.types import Assignment, Trajectory, Verification
from evoprompt.verifiers import NO_PLACE, Sequential

PROPOSED = [candidate(number, ["c0"]) for number in range(2, 6)]
Reward = Callable[[Assignment], float | None]


def replay(questions: int = 40, solved: int = 2, rollouts: int = 5) -> ReplayBuffer:
    """A buffer of questions of which each was solved in some of its rollouts."""
    found = ReplayBuffer()
    found.add(
        1,
        [
            trajectory(candidate(0), question(number), float(rollout < solved), rollout)
            for number in range(questions)
            for rollout in range(rollouts)
        ],
    )
    return found


def chances(seed: int, **chance: float) -> Reward:
    """Rewards of 0 or 1, right as often as is said of each candidate."""
    rng = random.Random(seed)
    return lambda assignment: float(rng.random() < chance[assignment.candidate.id])


def always(**rewards: float | None) -> Reward:
    return lambda assignment: rewards[assignment.candidate.id]


def tried(
    reward: Reward | ScriptedPolicy, verifier: Sequential | None = None, **settings: Any
) -> Verification:
    """A round of c2 to c5 against c0 on 40 questions, for four places."""
    policy = reward if isinstance(reward, ScriptedPolicy) else ScriptedPolicy(reward)
    usual: dict[str, Any] = {
        "proposed": PROPOSED,
        "parents": candidate_stats([0.5, 0.4]),
        "replay": replay(),
        "rollout": policy,
        "slots": 4,
        "rng": random.Random(0),
    }
    return (verifier or Sequential(40)).verify(VerificationRequest(**{**usual, **settings}))


def admitted(found: Verification) -> list[str]:
    return [result.candidate.id for result in found.results if result.admitted]


def reasons(found: Verification) -> Mapping[str, str]:
    return {result.candidate.id: result.reason for result in found.results}


class TestWhoIsAdmitted:
    def test_who_is_clearly_better(self) -> None:
        found = tried(chances(1, c0=0.3, c2=0.3, c3=0.95, c4=0.1, c5=0.95))
        assert sorted(admitted(found)) == ["c3", "c5"]
        assert all(bool(result.reason) != result.admitted for result in found.results)
        assert [result.admitted for result in found.results] == [True, True, False, False]

    def test_ties_to_the_last_digit_are_ties(self) -> None:
        found = tried(always(c0=0.3, c2=0.1 + 0.2, c3=0.1 + 0.2, c4=None, c5=0.3))
        assert admitted(found) == []
        assert set(reasons(found).values()) == {"nothing told it from its parent c0"}

    def test_rewards_of_another_range(self) -> None:
        def reward(assignment: Assignment) -> float:
            number, asked = int(assignment.candidate.id[1:]), int(assignment.question.id[1:])
            return 5.0 + (asked * 7 % 11) + (2.0 if number == 3 else asked % 3 - 1.0)

        assert admitted(tried(reward, Sequential(40, delta=0.5))) == ["c3"]

    def test_only_the_best_where_there_are_fewer_places(self) -> None:
        for slots in (0, 1, 2):
            found = tried(always(c0=0.0, c2=0.7, c3=0.8, c4=0.9, c5=1.0), slots=slots)
            assert admitted(found) == ["c5", "c4"][:slots]
            assert reasons(found)["c2"] == NO_PLACE

    def test_it_is_compared_with_the_first_parent_only(self) -> None:
        policy = ScriptedPolicy(chances(1, c0=0.3, c1=0.99, c2=0.9, c3=0.1, c4=0.1, c5=0.1))
        assert admitted(tried(policy)) == ["c2"]
        assert "c1" not in {assignment.candidate.id for assignment in policy.assignments}

    def test_nobody_where_there_is_nothing_to_ask(self) -> None:
        policy = ScriptedPolicy(always(c0=0.0, c2=1.0, c3=1.0, c4=1.0, c5=1.0))
        assert admitted(tried(policy, replay=ReplayBuffer())) == []
        assert admitted(tried(policy, replay=replay(1))) == []
        assert tried(policy, proposed=[]).results == ()


def tossed(coin: random.Random) -> RolloutFn:
    """A reward of its own for each rollout: ``ScriptedPolicy`` rewards those of one alike."""
    return lambda assignments: [
        Trajectory(one, float(coin.random() < 0.5), number)
        for one in assignments
        for number in range(one.rollouts)
    ]


def test_errs_at_most_as_often_as_it_says_over_all_rounds() -> None:
    repeats, error, wrong = 60, 0.2, 0
    for seed in range(repeats):
        policy = tossed(random.Random(seed))
        earlier: list[Verification] = []
        for turn in range(3):
            children = [candidate(2 + 6 * turn + number, ["c0"]) for number in range(6)]
            found = tried(
                always(),
                Sequential(60, error, batch=10),
                rollout=policy,
                replay=replay(60),
                proposed=children,
                slots=6,
                rng=random.Random(seed),
                earlier=tuple(earlier),
                rounds_left=2 - turn,
            )
            earlier.append(found)
        wrong += any(admitted(found) for found in earlier)
    assert wrong / repeats <= error + 3 * math.sqrt(error * (1 - error) / repeats)


class TestWhatIsRolledOut:
    def test_the_same_questions_for_all_and_no_more_for_who_is_decided(self) -> None:
        policy = ScriptedPolicy(chances(2, c0=0.5, c2=1.0, c3=0.0, c4=0.5, c5=0.55))
        tried(policy, Sequential(40, batch=10))
        asked: dict[str, list[str]] = {}
        for assignment in policy.assignments:
            assert assignment.purpose == "verify"
            assert assignment.rollouts == 1 or assignment.candidate.id == "c0"
            asked.setdefault(assignment.candidate.id, []).append(assignment.question.id)
        for questions in asked.values():
            assert questions == asked["c0"][: len(questions)]
            assert len(set(questions)) == len(questions)
        assert len(asked["c3"]) < 40

    @pytest.mark.parametrize(("children", "often"), [(1, 1), (4, 2), (18, 4)])
    def test_the_parent_answers_more_often_the_more_children_there_are(
        self, children: int, often: int
    ) -> None:
        policy = ScriptedPolicy(lambda assignment: 0.5)
        proposed = [candidate(number, ["c0"]) for number in range(2, 2 + children)]
        verifier = Sequential(40, batch=40)
        tried(policy, verifier, proposed=proposed)
        asked = {(one.candidate.id == "c0", one.rollouts) for one in policy.assignments}
        assert asked == {(True, often), (False, 1)}
        assert len(policy.trajectories) == verifier.most_rollouts(children, 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"questions": 0}, "questions is 0 and batch is 20; required: at least 1 of each"),
        ({"error": 0.0}, "error is 0.0; required: a probability between 0 and 1"),
        ({"delta": 0.0}, "delta is 0.0; required: above 0"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sequential(**settings)
