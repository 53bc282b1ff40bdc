from __future__ import annotations

import random
import re
from collections import Counter

from evoprompt_calculator.calculator import calculate
from evoprompt_calculator.problems import UNITS, draw, held_out, make_splits

SIZES = {"test": 60, "validation": 40, "train": 100}


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def test_the_answer_follows_from_the_story() -> None:
    rng = random.Random(0)
    for _ in range(200):
        problem = draw(rng, steps=rng.choice((1, 2, 3)), own=True)
        value = problem.start * UNITS.get(problem.unit, 1)
        for sign, number in problem.events:
            value = int(float(calculate(f"{value}{sign}{number}")))
        assert problem.answer == value
        assert numbers(problem.text) == [problem.start, *(n for _, n in problem.events)]
        assert problem.what in problem.text


def test_one_expression_without_brackets_solves_single_steps_only() -> None:
    rng = random.Random(1)
    for steps in (1, 2, 3):
        for own in (True, False):
            problem = draw(rng, steps=steps, own=own)
            right = calculate(problem.in_one_go) == str(problem.answer)
            assert right is (steps == 1)


def test_no_number_of_a_problem_is_its_answer() -> None:
    rng = random.Random(2)
    for _ in range(200):
        problem = draw(rng, steps=rng.choice((1, 2, 3)), own=False)
        assert problem.answer not in numbers(problem.text)


def test_the_tasks_problems_begin_with_numbers_that_pretraining_never_shows() -> None:
    rng = random.Random(3)
    for _ in range(300):
        steps = rng.choice((1, 2, 3))
        assert held_out(numbers(draw(rng, steps=steps, own=True).text)[0])
        assert not any(map(held_out, numbers(draw(rng, steps=steps, own=False).text)))


def test_splits_are_disjoint_repeatable_and_of_the_right_sizes() -> None:
    splits = make_splits(7, SIZES)
    assert {name: len(found) for name, found in splits.items()} == SIZES
    assert splits == make_splits(7, SIZES)
    assert splits != make_splits(8, SIZES)
    everything = [question for found in splits.values() for question in found]
    assert len({question.id for question in everything}) == len(everything)
    assert len({question.text for question in everything}) == len(everything)
    steps = Counter(question.row["stratum"] for question in splits["train"])
    assert steps == {"one step": 35, "two steps": 40, "three steps": 25}


def test_test_problems_do_not_depend_on_the_other_sizes() -> None:
    assert make_splits(7, SIZES)["test"] == make_splits(7, {"test": 60, "train": 5})["test"]
