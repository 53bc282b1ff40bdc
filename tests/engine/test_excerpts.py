"""What a person is shown of a step's rollouts: a bad and a good one, of bounded size."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evoprompt.log.events import Excerpt
from evoprompt.log.summaries import differences_of, excerpts_of, rollouts_to_log
from evoprompt.log.turns import readable
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import Turn


def test_a_candidate_is_shown_as_soon_as_it_is_asked_and_at_times_later() -> None:
    born = trajectory(replace(candidate(0), born=6), question(0), 0.0)
    assert [step for step in range(7, 20) if rollouts_to_log([born], step)] == [
        7,
        8,
        12,
        13,
        17,
        18,
    ]


def test_the_worst_and_the_best_of_a_candidate_are_shown() -> None:
    told = [trajectory(candidate(0), question(n), reward) for n, reward in enumerate((0.5, 1, 0))]
    assert [one.reward for one in excerpts_of(told)] == [0, 1]


def test_questions_that_candidates_came_out_differently_on_are_told_widest_gap_first() -> None:
    told = [
        trajectory(candidate(who), question(number), reward)
        for number, rewards in enumerate([(0.5, 1.0), (1.0, 1.0), (0.0, 1.0)])
        for who, reward in enumerate(rewards)
    ]
    (event,) = differences_of(3, [*told, trajectory(candidate(0), question(2), None)])
    assert event.to_json()["questions"] == {
        question(2).text: {"c0": 0.0, "c1": 1.0},
        question(0).text: {"c0": 0.5, "c1": 1.0},
    }
    assert differences_of(3, told[::-1]) == differences_of(3, told)
    assert differences_of(3, told[2:4]) == ()


def test_those_that_were_asked_most_are_shown() -> None:
    told = [
        trajectory(candidate(name), question(number), 0.0)
        for name in range(20)
        for number in range(name + 1)
    ]
    assert [one.candidate for one in excerpts_of(told)] == [f"c{n}" for n in range(19, 13, -1)]


def test_a_short_one_is_shown_whole() -> None:
    turns = (Turn("<search>sum</search>", "A table."), Turn("<answer>4</answer>"))
    told = replace(trajectory(candidate(0), question(0), 0.0), turns=turns, feedback="expected 5")
    (found,) = excerpts_of([told])
    asked = told.question
    answer = " or ".join(asked.answers)
    assert found == Excerpt("c0", asked.text, answer, 0.0, turns, "expected 5", 0)


@given(st.lists(st.tuples(st.text(max_size=2000), st.text(max_size=2000)), min_size=1, max_size=20))
def test_a_long_one_is_cut_and_says_how_much(texts: list[tuple[str, str]]) -> None:
    turns = tuple(Turn(*pair) for pair in texts)
    told = replace(trajectory(candidate(0), question(0), 0.0), turns=turns)
    (found,) = excerpts_of([told])
    length = sum(len(turn.action) + len(turn.observation) for turn in found.turns)
    assert len(found.turns) <= 12
    assert length <= 1_600
    legible = [part for turn in turns for part in readable(turn)[1:]]
    assert found.left_out + length == sum(map(len, legible))
