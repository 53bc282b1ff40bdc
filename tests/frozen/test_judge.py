"""Whose gains at some questions are paid for at others."""

from __future__ import annotations

from itertools import cycle

import pytest
from optimizing import Writes, learn

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


@pytest.mark.parametrize(("text", "best", "least"), [(FOUL, FIRST, 19), (FAIR, FAIR, 13)])
def test_gains_are_weighed_against_losses(text: str, best: str, least: int) -> None:
    assert [best_of(seed, text) for seed in range(20)].count(best) >= least


@pytest.mark.parametrize("seed", range(3))
def test_a_loss_is_weighed_whatever_the_scale_of_rewards(seed: int) -> None:
    assert best_of(seed, FOUL, FAIR, scale=100.0) == best_of(seed, FOUL, FAIR)
