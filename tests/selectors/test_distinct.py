"""Any selector can fill the seats that need different candidates."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.roles import Selector
from evoprompt.selectors import Deap, Softmax, select_distinct
from evoprompt.testing.samples import candidate_stats
from evoprompt.types import CandidateStats

SELECTORS: list[Selector] = [
    Softmax(0.01),
    Deap("best"),
    Deap("random"),
    Deap("tournament", {"tournsize": 4}),
    Deap("roulette"),
    Deap("nsga2", objectives={"tool_calls": -1.0}),
    Deap("lexicase"),
]


class Scripted(Selector):
    """Answers with the given candidates, call after call, whatever it is asked."""

    def __init__(self, *answers: Sequence[CandidateStats]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[list[str], int]] = []

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        self.asked.append(([stats.candidate.id for stats in candidate_stats], k))
        return self.answers.pop(0)


@given(
    selector=st.sampled_from(SELECTORS),
    weights=st.lists(st.floats(-2, 2) | st.just(0.0), min_size=1, max_size=7),
    k=st.integers(0, 9),
    seed=st.integers(0, 9),
)
def test_as_many_different_ones_come_as_there_are(
    selector: Selector, weights: list[float], k: int, seed: int
) -> None:
    given_ = candidate_stats(weights)
    chosen = select_distinct(selector, given_, k, random.Random(seed))
    assert len(chosen) == min(k, len(given_))
    assert len({stats.candidate.id for stats in chosen}) == len(chosen)
    assert all(any(one is stats for stats in given_) for one in chosen)


def test_the_selector_is_asked_again_for_the_rest_among_those_left() -> None:
    a, b, c = candidate_stats([0.1, 0.2, 0.3])
    selector = Scripted([b, b, b], [a, a], [c])
    assert select_distinct(selector, [a, b, c], 3, random.Random(0)) == [b, a, c]
    assert selector.asked == [(["c0", "c1", "c2"], 3), (["c0", "c2"], 2), (["c2"], 1)]


@pytest.mark.parametrize("answer", [[], candidate_stats([0.0] * 9)[8:]])
def test_a_selector_that_chooses_none_of_them_is_named(answer: list[CandidateStats]) -> None:
    with pytest.raises(ValueError, match=r"it chose .*; required"):
        select_distinct(Scripted(answer), candidate_stats([0.1, 0.2]), 1, random.Random(0))
