"""Rewards are remembered, their noise is estimated, and fronts are what a full look would give."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.optimizer.ledger import SURE, Ledger

REWARDS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.sampled_from([0.0, 0.5, 1.0])),
    max_size=40,
)


@given(REWARDS)
def test_the_front_of_a_question_holds_those_of_the_highest_mean(
    rewards: list[tuple[str, str, float]],
) -> None:
    ledger = Ledger()
    known: dict[str, dict[str, list[float]]] = {}
    for candidate, question, reward in rewards:
        ledger.add(candidate, question, reward)
        known.setdefault(question, {}).setdefault(candidate, []).append(reward)
    for question, by_candidate in known.items():
        means = {name: fmean(found) for name, found in by_candidate.items()}
        best = max(means.values())
        assert set(ledger.front(question)) == {name for name in means if means[name] == best}
        for name in means:
            assert (question in ledger.beaten_at(name)) == (means[name] < best)


@pytest.mark.parametrize("reward", [2 / 9, 1 / 9, 1 / 18])  # whose sums are rounded
def test_what_repeats_itself_is_no_noise(reward: float) -> None:
    ledger = Ledger()
    ledger.add("other", "question", reward)
    for _ in range(SURE + 1):
        ledger.add("one", "question", reward)
    assert ledger.noise == 0.0
    assert not ledger.doubtful
    assert set(ledger.front("question")) == {"one", "other"}


def test_the_noise_of_flipped_rewards_is_found() -> None:
    rng, ledger = random.Random(0), Ledger()
    for index in range(4000):
        ledger.add("c0", f"q{index % 1000}", float((index % 2 == 0) != (rng.random() < 0.2)))
    assert ledger.noise == pytest.approx(0.16, abs=0.01)
    assert ledger.doubtful


def test_rewards_that_repeat_themselves_are_free_of_chance_after_a_while() -> None:
    ledger = Ledger()
    ledger.add("c0", "q", 1.0)
    for _ in range(SURE):
        assert ledger.doubtful
        ledger.add("c0", "q", 1.0)
    assert not ledger.doubtful
    assert ledger.noise == 0.0


def test_a_difference_is_of_the_questions_that_both_were_asked() -> None:
    ledger = Ledger()
    for question, mine, theirs in (("a", 1.0, 0.0), ("b", 1.0, 1.0), ("c", 0.0, 1.0)):
        ledger.add("c1", question, mine)
        ledger.add("c0", question, theirs)
    ledger.add("c1", "d", 1.0)
    found = ledger.difference("c1", "c0", "abd")
    assert (found.total, found.variance, found.questions) == (1.0, 0.0, 2)
    assert found.beyond(0)
    assert found.beyond(5)  # nothing is chance
    ledger.add("c1", "a", 0.0)
    doubted = ledger.difference("c1", "c0", "abd")
    assert doubted.variance > 0
    assert not doubted.beyond(2)


def test_nothing_asked_has_no_mean() -> None:
    mean, error, number = Ledger().mean("c0", ["q"])
    assert math.isnan(mean)
    assert math.isinf(error)
    assert number == 0
