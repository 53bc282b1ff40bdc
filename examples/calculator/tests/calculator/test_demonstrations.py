from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from evoprompt_calculator.bank import CLOSING, GOOD_IDEAS, OPENING, SEED_IDEAS
from evoprompt_calculator.calculator import calculate
from evoprompt_calculator.demonstrations import demonstrate
from evoprompt_calculator.problems import Problem, draw

CAREFUL = [*GOOD_IDEAS, "copy", "stop"]


def episode(
    problem: Problem, ideas: Sequence[str], seed: int, *, careful: bool = False
) -> list[str]:
    """What a demonstrator says."""
    script = demonstrate(problem, ideas, random.Random(seed), careful=careful)
    said = [next(script)]
    try:
        while True:
            expression = said[-1].removeprefix(OPENING).removesuffix(CLOSING)
            closed = said[-1].endswith(CLOSING)
            said.append(script.send(calculate(expression) if closed else "0"))
    except StopIteration:
        return said


def problems(count: int, steps: int) -> list[Problem]:
    rng = random.Random(4)
    return [draw(rng, steps=steps, own=False) for _ in range(count)]


def solved(ideas: Sequence[str], steps: int, *, careful: bool = False) -> float:
    found = [
        episode(problem, ideas, seed, careful=careful)[-1] == str(problem.answer)
        for seed, problem in enumerate(problems(300, steps))
    ]
    return sum(found) / len(found)


def test_without_a_sentence_that_asks_for_it_nobody_goes_step_by_step() -> None:
    for seed, problem in enumerate(problems(200, 3)):
        assert len(episode(problem, [*SEED_IDEAS, "check", "tool-first"], seed)) <= 2


def test_good_sentences_make_demonstrators_good() -> None:
    assert solved(CAREFUL, 3) > 0.75
    assert solved(SEED_IDEAS, 3) == 0.0
    assert solved(SEED_IDEAS, 1) == pytest.approx(0.27, abs=0.1)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_careful_demonstrator_who_goes_step_by_step_is_always_right(steps: int) -> None:
    ideas = ["one-step", "follow", "every-step", "number-only"] + ["number-only"] * 3
    assert solved(ideas, steps, careful=True) > 0.97


def test_lost_brackets_and_needless_calls_happen_when_they_are_asked_for() -> None:
    problem = problems(1, 1)[0]
    lost = [not episode(problem, ["loose-call"], seed)[0].endswith(CLOSING) for seed in range(200)]
    assert 0.3 < sum(lost) / len(lost) < 0.8
    assert max(len(episode(problem, ["exhaust"], seed)) for seed in range(20)) == 6
