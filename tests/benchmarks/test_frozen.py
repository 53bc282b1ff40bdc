"""The table beside GEPA is what the benchmark computes, today and with the versions of today."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.frozen import WORLDS, row
from benchmarks.frozen_worlds import Trap

PAGE = Path(__file__).parents[2] / "docs/results-frozen.md"


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["additive", "trap"])
def test_the_row_of_a_family_is_computed_again(family: str) -> None:
    shown = PAGE.read_text(encoding="utf-8").splitlines()
    assert row(family, range(660, 680), 2000, 40) in shown


def test_the_shortcut_of_trap_wins_early_and_blocks_every_habit() -> None:
    problem = WORLDS["trap"](2000)
    (name,) = problem.names
    habits = [*problem.habits.values()]
    worth = [problem.truth({name: " ".join(habits[:count])}) for count in range(9)]
    blocked = problem.truth({name: Trap.SHORTCUT})
    assert worth[4] < blocked < worth[7] < worth[8] == 1.0
    assert problem.truth({name: " ".join([*habits, Trap.SHORTCUT])}) == blocked


def test_half_of_a_pair_does_harm_and_the_whole_pair_helps() -> None:
    problem = WORLDS["pair"](2000)
    first, second = problem.names
    nothing = problem.truth({first: "", second: ""})
    half = problem.truth({first: problem.habits[0], second: ""})
    pair = problem.truth({first: problem.habits[0], second: problem.habits[1]})
    assert half < nothing < pair


@pytest.mark.parametrize("name", ["trap", "pair", "graded", "shuffle", "chatty"])
@pytest.mark.parametrize("validation", [10, 40, 300])
def test_all_habits_together_reach_the_target(name: str, validation: int) -> None:
    problem = WORLDS[name](2000, validation=validation)
    texts = dict.fromkeys(problem.names, "")
    for rule, sentence in problem.habits.items():
        texts[problem.home(rule)] += f" {sentence}"
    assert len(problem.validation) == validation
    assert problem.truth(problem.seed_texts) < problem.target <= problem.truth(texts)
