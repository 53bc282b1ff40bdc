"""Whose gains at some questions are paid for at others."""

from __future__ import annotations

from collections.abc import Sequence

import optimizing
import pytest

from evoprompt import Proposal, ProposalRequest, Proposer

FIRST = "Answer the question."
FAIR, FOUL = "Answer in one word.", "Answer in a long sentence."


class Writer(Proposer):
    """Writes one text after another, and then the first again."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self._written = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """The next one."""
        text = self._texts[self._written % len(self._texts)]
        self._written += 1
        return [Proposal.of(text, request.parents[0].candidate)]


def reward(text: str, asked: int) -> float:
    """Of ten questions the first text solves two; the fair one four others, the foul one one."""
    solved = {FIRST: {0, 1}, FAIR: {3, 4, 5, 6}, FOUL: {3}}
    return float(asked * 7 % 10 in solved[text])


def best_of(seed: int, *texts: str, patience: int = 6) -> str:
    result = optimizing.optimize(
        FIRST,
        list(range(100)),
        lambda asked, output: output,
        program=lambda text, asked: reward(text, asked),
        valset=list(range(100, 160)),
        proposer=Writer(*texts),
        budget=900,
        seed=seed,
        patience=patience,
        max_concurrency=1,
    )
    assert result.rollouts <= 900
    return result.best.text


def test_what_loses_more_than_it_gains_is_hardly_ever_the_best() -> None:
    found = [best_of(seed, FOUL) for seed in range(40)]
    assert found.count(FIRST) >= 38  # 33 where the first eight validation questions decide


def test_what_gains_more_than_it_loses_is_found_as_a_rule() -> None:
    found = [best_of(seed, FAIR) for seed in range(40)]
    assert found.count(FAIR) >= 26


@pytest.mark.parametrize("seed", range(4))
def test_a_loss_is_weighed_whatever_the_scale_of_rewards(seed: int) -> None:
    def best(scale: float) -> str:
        result = optimizing.optimize(
            FIRST,
            list(range(100)),
            lambda asked, output: output,
            program=lambda text, asked: scale * reward(text, asked),
            valset=list(range(100, 160)),
            proposer=Writer(FOUL, FAIR),
            budget=900,
            seed=seed,
            perfect=scale,
            patience=6,
            max_concurrency=1,
        )
        return result.best.text

    assert best(100.0) == best(1.0)
