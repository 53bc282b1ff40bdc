"""The replay buffer: bounded, failures of late steps first, questions by priority."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.replay import QuestionRecord, ReplayBuffer, rollouts_to_keep
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import Candidate, Question, Trajectory

A, B, C = candidate(0), candidate(1), candidate(2)


def told_why(instruction: Candidate, asked: Question, reward: float | None) -> Trajectory:
    """A trajectory about which the task said something."""
    return replace(trajectory(instruction, asked, reward), feedback=f"not {asked.answers[0]}")


def unread(instruction: Candidate, asked: Question, reward: float | None) -> Trajectory:
    """A trajectory whose text the host did not keep."""
    return replace(trajectory(instruction, asked, reward), turns=())


def tier(one: Trajectory) -> tuple[bool, bool]:
    """What goes last comes first: what has text, and of that the failures."""
    assert one.reward is not None
    return not one.turns, one.reward >= 0.5


def steps_of(*builders: Callable[..., Trajectory]) -> st.SearchStrategy[list[list[Trajectory]]]:
    """Steps of a training, with rollouts that the ``builders`` return."""
    rollouts = st.builds(
        lambda build, *given: build(*given),
        st.sampled_from(builders),
        st.sampled_from([A, B, C]),
        st.integers(0, 5).map(question),
        st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]),
    )
    return st.lists(st.lists(rollouts, max_size=6), max_size=8)


steps = steps_of(trajectory, unread, told_why)


def filled(told: Sequence[Sequence[Trajectory]], capacity: int = 1024) -> ReplayBuffer:
    replay = ReplayBuffer(capacity)
    for step, trajectories in enumerate(told, start=1):
        replay.add(step, trajectories)
    return replay


def through_json(replay: ReplayBuffer) -> ReplayBuffer:
    resumed = ReplayBuffer(replay.capacity, replay.failure_below)
    resumed.load_state_dict(json.loads(json.dumps(replay.state_dict(), allow_nan=False)))
    return resumed


class TestWhatIsRemembered:
    @given(told=steps, capacity=st.integers(1, 8))
    def test_what_has_no_text_makes_room_first_then_successes_and_the_oldest_first(
        self, told: list[list[Trajectory]], capacity: int
    ) -> None:
        expected = [
            one
            for one in itertools.chain(*told)
            if one.reward is not None and (one.turns or one.reward < 0.5)
        ]
        while len(expected) > capacity:
            doomed = max(expected, key=tier)
            expected = [one for one in expected if one is not doomed]
        replay = filled(told, capacity)
        assert len(replay) == len(expected)
        assert list(map(id, replay)) == list(map(id, sorted(expected, key=tier)))

    @given(told=steps, capacity=st.integers(1, 8))
    def test_questions_are_bounded_too_and_the_longest_unseen_goes(
        self, told: list[list[Trajectory]], capacity: int
    ) -> None:
        scored = [one for step in told for one in step if one.reward is not None]
        latest = list(dict.fromkeys(one.question.id for one in reversed(scored)))
        replay = filled(told, capacity)
        assert [record.question.id for record in replay.records] == latest[:capacity][::-1]

    @given(told=steps)
    def test_counts_are_those_of_all_trajectories(self, told: list[list[Trajectory]]) -> None:
        replay = filled(told)
        for number in range(6):
            rewards = [
                (step, one.reward)
                for step, trajectories in enumerate(told, start=1)
                for one in trajectories
                if one.question.id == f"q{number}" and one.reward is not None
            ]
            expected = QuestionRecord(
                question(number),
                len(rewards),
                sum(reward < 0.5 for _, reward in rewards),
                sum(reward for _, reward in rewards),
                max((step for step, _ in rewards), default=0),
            )
            records = {record.question.id: record for record in replay.records}
            assert records.get(f"q{number}") == (expected if rewards else None)


class TestFailures:
    @given(
        told=steps_of(trajectory, unread),
        k=st.integers(0, 7),
        wanted=st.sets(st.sampled_from(["c0", "c1", "c2"])),
        seed=st.integers(0, 3),
    )
    def test_have_text_first_then_are_the_wanted_candidates_of_different_questions_latest_first(
        self, told: list[list[Trajectory]], k: int, wanted: set[str], seed: int
    ) -> None:
        replay, ranks = ReplayBuffer(), []
        steps_of: dict[int, int] = {}
        seen: Counter[tuple[bool, str, str]] = Counter()
        for step, trajectories in enumerate(told, start=1):
            replay.add(step, trajectories)
            steps_of |= {id(one): -step for one in trajectories}
        for step in range(len(told), 0, -1):
            for one in told[step - 1]:
                if one.reward is not None and one.reward < 0.5:
                    own = one.candidate.id in wanted
                    asked = (not one.turns, one.question.id, one.candidate.id if own else "")
                    ranks.append((not one.turns, not own, seen[asked], -step))
                    seen[asked] += 1
        found = replay.failures(k, random.Random(seed), wanted)
        told_ranks = []
        seen.clear()
        for one in found:
            own = one.candidate.id in wanted
            asked = (not one.turns, one.question.id, one.candidate.id if own else "")
            told_ranks.append((not one.turns, not own, seen[asked], steps_of[id(one)]))
            seen[asked] += 1
        assert told_ranks == sorted(ranks)[:k]

    def test_of_the_wanted_candidates_come_before_later_ones_of_others(self) -> None:
        own, other = trajectory(A, question(1), 0.0), trajectory(B, question(2), 0.0)
        assert filled([[own], [other]]).failures(1, random.Random(0), ["c0"]) == [own]

    def test_a_rare_kind_is_among_the_first(self) -> None:
        frequent = [trajectory(A, question(number), 0.0) for number in range(50)]
        rare = replace(trajectory(A, question(50), 0.0), feedback="Name the unit.")
        for seed in range(10):
            found = filled([[rare], frequent]).failures(4, random.Random(seed), ["c0"])
            assert sum(failure is rare for failure in found) == 1
            assert len({failure.question.id for failure in found}) == 4

    def test_of_a_verification_count_and_their_questions_stay_as_they_were(self) -> None:
        replay = filled([[trajectory(A, question(1), 0.0)]])
        told = [trajectory(A, question(2), 0.0), unread(A, question(3), 0.0)]
        replay.add_verification(1, [*told, trajectory(A, question(4), None)])
        found = replay.failures(9, random.Random(0), ["c0"])
        assert {one.question.id for one in found} == {"q1", "q2"}
        assert [record.question.id for record in replay.records] == ["q1"]
        assert list(through_json(replay)) == list(replay)

    def test_have_a_success_at_the_same_question_beside_them(self) -> None:
        failed = [trajectory(A, question(n), 0.0) for n in range(4)]
        mine = [trajectory(A, question(1), 1.0, rollout) for rollout in (1, 2)]
        others = [trajectory(B, question(n), 1.0) for n in (1, 2)]
        replay = filled([[*failed, *mine, *others, unread(A, question(3), 1.0)]])
        assert replay.successes(failed) == [mine[1], others[1]]


class TestQuestions:
    def replay(self) -> ReplayBuffer:
        """q0 failed always, q1 half the time, q2 never; q3 failed always, two steps ago."""
        replay = ReplayBuffer()
        replay.add(1, [trajectory(A, question(3), 0.0)])
        rewards = {0: (0.0, 0.0), 1: (0.0, 1.0), 2: (1.0, 1.0)}
        replay.add(3, [trajectory(A, question(n), r) for n, rs in rewards.items() for r in rs])
        return replay

    def test_come_by_share_of_failures_over_age_without_replacement(self) -> None:
        priority = {"q0": 1.0, "q1": 0.5, "q2": 0.1, "q3": 1 / 3}
        total = sum(priority.values())
        replay, rng, draws = self.replay(), random.Random(0), 20_000
        counts = Counter(
            tuple(asked.id for asked in replay.questions(2, rng)) for _ in range(draws)
        )
        for first, second in itertools.permutations(priority, 2):
            chance = priority[first] / total * priority[second] / (total - priority[first])
            tolerance = 5 * math.sqrt(chance * (1 - chance) / draws)
            assert abs(counts[first, second] / draws - chance) < tolerance


class TestState:
    @given(told=steps, capacity=st.integers(1, 8), seed=st.integers(0, 3))
    def test_continues_from_a_saved_state(
        self, told: list[list[Trajectory]], capacity: int, seed: int
    ) -> None:
        replay = filled(told, capacity)
        resumed = through_json(replay)
        for one in (replay, resumed):
            one.add(9, [trajectory(B, question(number), number % 2) for number in range(4)])
        assert list(resumed) == list(replay)
        assert resumed.records == replay.records
        found, expected = (
            (one.questions(3, random.Random(seed)), one.failures(3, random.Random(seed), ["c1"]))
            for one in (resumed, replay)
        )
        assert found == expected

    def test_holds_a_question_and_a_candidate_once_however_often_they_were_met(self) -> None:
        asked, long = replace(question(1), row={"page": "x" * 10_000}), "y" * 10_000
        instruction = replace(A, components={"instruction": long})
        told = [[trajectory(instruction, asked, reward) for reward in (0.0, 1.0)]] * 50
        assert len(json.dumps(filled(told).state_dict())) < 100_000

    @pytest.mark.parametrize("known", ["questions", "candidates"])
    def test_one_that_is_missing_is_an_error(self, known: str) -> None:
        saved = json.loads(json.dumps(filled([[trajectory(A, question(1), 0.0)]]).state_dict()))
        saved[known] = {}
        replay = filled([[trajectory(B, question(2), 0.0)]])
        before = list(replay)
        with pytest.raises(LookupError):
            replay.load_state_dict(saved)
        assert list(replay) == before


class TestKnownQuestions:
    def test_do_not_stand_for_others(self) -> None:
        replay, changed = filled([[trajectory(A, question(1), 0.0)]]), question(1)
        changed = replace(changed, row={"id": "q1", "changed": True})
        assert replay.intern_question(changed) is changed
        assert replay.intern_question(unknown := question(2)) is unknown


class TestWorthReading:
    rollouts = st.lists(
        st.tuples(
            st.sampled_from(["c0", "c1", "c2"]),
            st.sampled_from(["q0", "q1", "q2"]),
            st.integers(0, 4),
            st.sampled_from([0, 1]),
        )
    )

    @given(rollouts=rollouts, each=st.integers(1, 4))
    def test_are_as_many_failures_of_a_candidate_as_a_request_shows_of_different_questions(
        self, rollouts: list[tuple[str, str, int, float]], each: int
    ) -> None:
        chosen = rollouts_to_keep(dict(enumerate(rollouts)), 0.5, each)
        for name in {one[0] for one in rollouts}:
            made = [(key, one[1]) for key, one in enumerate(rollouts) if one[0::3] == (name, 0)]
            read = [asked for key, asked in made if key in chosen]
            assert len(read) == min(len(made), each)
            assert len(set(read)) == min(len({asked for _, asked in made}), each)

    @given(rollouts=rollouts, each=st.integers(1, 4))
    def test_have_a_success_beside_each_of_them_or_one_of_the_candidate(
        self, rollouts: list[tuple[str, str, int, float]], each: int
    ) -> None:
        chosen = rollouts_to_keep(dict(enumerate(rollouts)), 0.5, each)
        failed = [rollouts[key] for key in chosen if not rollouts[key][3]]
        solved = [rollouts[key] for key in chosen if rollouts[key][3]]
        made = {one[:2] for one in rollouts if one[3]}
        for name, asked, *_ in failed:
            beside = {(name, asked)} & made or {pair for pair in made if pair[1] == asked}
            assert not beside or beside & {one[:2] for one in solved}
        assert {one[0] for one in solved} == {name for name, _ in made}, "the report shows one"
        assert len(solved) <= len(failed) + len({name for name, _ in made})
