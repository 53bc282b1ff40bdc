"""Whose gains at some questions are paid for at others, and what two lines of descent make."""

from __future__ import annotations

from itertools import count, cycle

import pytest
from optimizing import Writes, learn

from evoprompt.optimizer.loop import merged, nearest_ancestor
from evoprompt.types import Candidate

FIRST = "Answer the question."
FAIR, FOUL = "Answer in one word.", "Answer in a long sentence."
SOLVED = {FIRST: {0, 1}, FAIR: {3, 4, 5, 6}, FOUL: {3}}
"""Of ten questions the first text solves two; the fair one four others, the foul one one."""


def best_of(seed: int, *texts: str, scale: float = 1.0) -> str:
    written = cycle(texts)
    result = learn(
        lambda text, asked: scale * (asked * 7 % 10 in SOLVED[text]),
        lambda asked, output: output,
        seed_instruction=FIRST,
        trainset=list(range(100)),
        valset=list(range(100, 160)),
        proposer=Writes(lambda request: next(written)),
        budget=900,
        seed=seed,
        patience=6,
        perfect=scale,
    )
    assert result.rollouts <= 900
    text: str = result.best.text
    return text


@pytest.mark.parametrize(("text", "best", "least"), [(FOUL, FIRST, 38), (FAIR, FAIR, 26)])
def test_gains_are_weighed_against_losses(text: str, best: str, least: int) -> None:
    assert [best_of(seed, text) for seed in range(40)].count(best) >= least


@pytest.mark.parametrize("seed", range(3))
def test_a_loss_is_weighed_whatever_the_scale_of_rewards(seed: int) -> None:
    assert best_of(seed, FOUL, FAIR, scale=100.0) == best_of(seed, FOUL, FAIR)


def test_two_lines_of_descent_become_one_text_that_has_what_both_have_learned() -> None:
    numbers = count()

    def candidate(a: str, b: str, *parents: Candidate) -> Candidate:
        return Candidate(f"c{next(numbers)}", {"a": a, "b": b}, tuple(one.id for one in parents))

    base = candidate("Think.", "Look around.")
    left = candidate("Think. Count twice.", "Look around.", base)
    right = candidate("Think. Name units.", "Look left.", base)
    both = {"a": "Think. Count twice. Name units.", "b": "Look left."}
    assert merged(base, left, right) == both
    assert merged(base, right, left)["b"] == "Look left."
    dropped = candidate("Name units.", "Look around.", base)
    assert merged(base, left, dropped)["a"] == "Count twice. Name units."
    below = candidate("Think. Count twice. Stop.", "Look around.", left)
    beside = candidate("Think. Count thrice.", "Look around.", left)
    born = {one.id: one for one in (base, left, right, below, beside)}
    assert nearest_ancestor(below, beside, born) == left
    assert nearest_ancestor(below, right, born) == base
    assert nearest_ancestor(below, left, born) is None
