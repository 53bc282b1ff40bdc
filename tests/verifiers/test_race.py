"""Children race their parent: who is admitted, how often wrongly, and what it costs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from evoprompt.replay import ReplayBuffer
from evoprompt.roles import RolloutFn, VerificationRequest
from evoprompt.testing import ScriptedPolicy
from evoprompt.testing.samples import candidate, candidate_stats, question, trajectory
from evoprompt.types import Assignment, Trajectory, Verification
from evoprompt.verifiers import Race

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


def race(
    reward: Reward | ScriptedPolicy, verifier: Race | None = None, **settings: Any
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
    return (verifier or Race(40)).verify(VerificationRequest(**{**usual, **settings}))


def admitted(found: Verification) -> list[str]:
    return [result.candidate.id for result in found.results if result.admitted]


def reasons(found: Verification) -> Mapping[str, str]:
    return {result.candidate.id: result.reason for result in found.results}


class TestWhoIsAdmitted:
    def test_who_is_clearly_better(self) -> None:
        found = race(chances(1, c0=0.3, c2=0.3, c3=0.9, c4=0.1, c5=0.9))
        assert sorted(admitted(found)) == ["c3", "c5"]
        assert all(bool(result.reason) != result.admitted for result in found.results)

    def test_ties_to_the_last_digit_are_ties(self) -> None:
        found = race(always(c0=0.3, c2=0.1 + 0.2, c3=0.1 + 0.2, c4=0.3, c5=0.3))
        assert admitted(found) == []

    @pytest.mark.parametrize("low", [-1.0, 0.0, 5.0])
    def test_the_range_of_rewards_does_not_matter(self, low: float) -> None:
        def reward(assignment: Assignment) -> float:
            number, asked = int(assignment.candidate.id[1:]), int(assignment.question.id[1:])
            return low + (asked * 7 % 11) + (2.0 if number == 3 else asked % 3 - 1.0)

        assert admitted(race(reward)) == ["c3"]

    def test_only_the_best_where_there_are_fewer_places(self) -> None:
        for slots in (0, 1, 2):
            found = race(always(c0=0.0, c2=0.7, c3=0.8, c4=0.9, c5=1.0), slots=slots)
            assert admitted(found) == ["c5", "c4"][:slots]
            assert reasons(found)["c2"] == "no free place was left in the population"

    def test_it_is_compared_with_the_first_parent_only(self) -> None:
        policy = ScriptedPolicy(chances(1, c0=0.3, c1=0.99, c2=0.8, c3=0.1, c4=0.1, c5=0.1))
        assert admitted(race(policy)) == ["c2"]
        assert "c1" not in {assignment.candidate.id for assignment in policy.assignments}


def tossed(coin: random.Random) -> RolloutFn:
    """A reward of its own for each rollout: ``ScriptedPolicy`` rewards those of one alike."""
    return lambda assignments: [
        Trajectory(one, float(coin.random() < 0.5), number)
        for one in assignments
        for number in range(one.rollouts)
    ]


class TestHowOftenItErrs:
    def test_at_most_as_often_as_it_says_over_all_rounds(self) -> None:
        repeats, error, wrong = 80, 0.2, 0
        for seed in range(repeats):
            policy = tossed(random.Random(seed))
            earlier: list[Verification] = []
            for turn in range(5):
                children = [candidate(2 + 6 * turn + number, ["c0"]) for number in range(6)]
                found = race(
                    always(),
                    Race(40, error),
                    rollout=policy,
                    proposed=children,
                    slots=6,
                    rng=random.Random(seed),
                    earlier=tuple(earlier),
                    rounds_left=4 - turn,
                )
                earlier.append(found)
            wrong += any(admitted(found) for found in earlier)
        assert wrong / repeats <= error + 3 * math.sqrt(error * (1 - error) / repeats)


class TestRounds:
    def test_share_what_may_be_spent(self) -> None:
        """Seven wins of seven: one child needs 2 ** -7 and no less."""

        def wins(error: float, earlier: Sequence[Verification], rounds_left: int) -> bool:
            found = race(
                always(c0=0.0, c2=1.0),
                Race(7, error),
                proposed=PROPOSED[:1],
                earlier=earlier,
                rounds_left=rounds_left,
            )
            return bool(admitted(found))

        refused = race(always(c0=0.0, c5=0.0), proposed=PROPOSED[3:])
        accepted = race(always(c0=0.0, c5=1.0), proposed=PROPOSED[3:])
        unspent = race(always(c0=0.0, c5=1.0), proposed=PROPOSED[3:], slots=0)
        just = 2.0**-7
        assert wins(just, (), 0)
        assert not wins(just, (), 1)
        assert wins(2 * just, (), 1)
        assert not wins(just, [refused], 0)
        assert wins(2 * just, [refused], 0)
        assert not wins(2 * just, [refused], 1)
        assert wins(just, [accepted], 0)
        assert wins(just, [unspent], 0)

    def test_who_wins_leaves_its_share_to_the_others(self) -> None:
        """Two of two win: the second needs only what one alone would need."""

        def reward(assignment: Assignment) -> float:
            wins = 8 if assignment.candidate.id == "c2" else 7
            number = int(assignment.question.id[1:])
            return float(assignment.candidate.id != "c0" and number < wins)

        found = race(
            reward,
            Race(8, 2.0**-7, looks=1),
            proposed=PROPOSED[:2],
            replay=replay(8),
        )
        assert admitted(found) == ["c2", "c3"]
        assert (
            admitted(
                race(reward, Race(8, 2.0**-7, looks=1), proposed=PROPOSED[1:3], replay=replay(8))
            )
            == []
        )


class TestWhatIsRolledOut:
    def test_the_same_questions_for_all_and_no_more_for_who_is_decided(self) -> None:
        policy = ScriptedPolicy(chances(2, c0=0.5, c2=1.0, c3=0.0, c4=0.5, c5=0.55))
        race(policy)
        asked: dict[str, list[str]] = {}
        for assignment in policy.assignments:
            assert assignment.purpose == "verify"
            assert assignment.rollouts == 1 or assignment.candidate.id == "c0"
            asked.setdefault(assignment.candidate.id, []).append(assignment.question.id)
        for questions in asked.values():
            assert questions == asked["c0"][: len(questions)]
            assert len(set(questions)) == len(questions)
        assert len(asked["c2"]) < 40
        assert len(asked["c3"]) < 40

    @pytest.mark.parametrize(("children", "often"), [(1, 1), (4, 2), (18, 4)])
    def test_the_parent_answers_more_often_the_more_children_there_are(
        self, children: int, often: int
    ) -> None:
        policy = ScriptedPolicy(lambda assignment: 0.5)
        proposed = [candidate(number, ["c0"]) for number in range(2, 2 + children)]
        race(policy, Race(40, looks=1), proposed=proposed)
        asked = {(one.candidate.id == "c0", one.rollouts) for one in policy.assignments}
        assert asked == {(True, often), (False, 1)}

    def test_questions_that_tell_candidates_apart_come_first(self) -> None:
        mixed = ReplayBuffer()
        told = [
            trajectory(candidate(0), question(number), float(rollout < number % 4), rollout)
            for number in range(40)
            for rollout in range(3)
        ]
        mixed.add(1, told)
        policy = ScriptedPolicy(chances(2, c0=0.5, c2=0.5, c3=0.5, c4=0.5, c5=0.5))
        race(policy, Race(25), replay=mixed)
        asked = [one.question.id for one in policy.assignments if one.candidate.id == "c0"]
        kinds = [int(name[1:]) % 4 in (1, 2) for name in asked]
        assert kinds == sorted(kinds, reverse=True)
        assert sum(kinds) >= 15

    def test_nothing_where_nobody_could_win(self) -> None:
        policy = ScriptedPolicy(always(c0=0.0, c2=1.0, c3=1.0, c4=1.0, c5=1.0))
        for remembered in (1, 2):
            found = race(policy, replay=replay(remembered))
            assert set(reasons(found).values()) == {
                f"too few questions are remembered ({remembered}) to show that it is better than "
                "its parent; required: at least 3"
            }
            assert found.notice.startswith("race could admit nobody, whatever the candidates are")
            assert "raise its questions (now " in found.notice
        found = race(policy, replay=ReplayBuffer())
        assert set(reasons(found).values()) == {
            "there is no question to compare it with its parent on"
        }
        assert "there is no question to compare it with" in found.notice
        assert race(policy, proposed=[]).results == ()
        assert policy.trajectories == []
        assert not race(policy, replay=replay(10)).notice


class TestReasons:
    def test_say_what_was_compared(self) -> None:
        rewards = always(c0=0.75, c2=0.25, c3=0.75, c4=None, c5=1.0)
        worse = "not shown to be better than its parent c0: mean reward"
        nothing = "no question was scored both for it and for its parent c0"
        assert reasons(race(rewards, Race(10, looks=1), replay=replay(10))) == {
            "c2": f"{worse} 0.250 against 0.750 on the same 10 questions",
            "c3": f"{worse} 0.750 against 0.750 on the same 10 questions",
            "c4": nothing,
            "c5": "",
        }
        few = "5 more were unlikely to show it"
        assert reasons(race(rewards, Race(10, looks=2), replay=replay(10))) == {
            "c2": f"{worse} 0.250 against 0.750 on the same 5 questions; {few}",
            "c3": f"{worse} 0.750 against 0.750 on the same 5 questions; {few}",
            "c4": f"{nothing}; {few}",
            "c5": "",
        }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"questions": 0}, "questions is 0 and looks is 5; required: at least 1 of each"),
        ({"error": 0.0}, "error is 0.0; required: a probability between 0 and 1"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Race(**settings)
