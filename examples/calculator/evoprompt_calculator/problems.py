"""Word problems of one to three steps, and the numbers that only the task's own problems have."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evoprompt_tiny.task import KIND, draw_splits

from evoprompt.types import Question
from evoprompt_calculator.calculator import calculate

STEP_SHARES: Mapping[int, float] = {1: 0.35, 2: 0.4, 3: 0.25}
"""Share of the problems that have that many events."""

KINDS = {1: "one step", 2: "two steps", 3: "three steps"}

PEOPLE = (
    *("Mia", "Tom", "Anna", "Ben", "Lena", "Omar", "Ida", "Paul", "Nora", "Max"),
    *("Ruth", "Sam", "Vera", "Leo", "Jana", "Amir"),
)
THINGS = (
    *("apples", "pens", "eggs", "coins", "cards", "books", "shells", "stamps", "beads", "nuts"),
    *("plums", "stones", "cups", "candles", "ribbons", "marbles"),
)
UNITS: Mapping[str, int] = {"dozen": 12, "pairs of": 2, "packs of ten": 10}
"""Units in which a problem may count, and how many pieces each has."""

EVENTS: Mapping[str, Sequence[str]] = {
    "+": ("{who} finds {n} more.", "{who} buys {n} more.", "A friend brings {n} more."),
    "-": ("{who} loses {n} of them.", "{who} gives {n} away.", "{who} sells {n} of them."),
    "*": ("Then the number grows to {n} times as many.", "A machine turns each into {n} of them."),
    "/": ("{n} friends share them and {who} is one.", "{who} makes {n} equal piles and keeps one."),
}
"""Sentences for an event, by its operator."""

QUESTIONS = ("How many {what} does {who} have now?", "How many {what} are there in the end?")

UNIT_SHARE = 0.2
"""Share of the problems that count in a unit."""

_LARGEST = 999
_SPLITS_SEED = 271828


def held_out(number: int) -> bool:
    """Return whether a number is kept from pretraining problems: every seventh from 10 to 99.

    Each of the task's own problems begins with such a number.
    """
    return 10 <= number <= 99 and number % 7 == 3


@dataclass(frozen=True, slots=True)
class Problem:
    """Story about a number of things.

    Attributes:
        text: the story and its question.
        things: the things that are counted.
        start: the number that the story begins with, counted in ``unit``.
        unit: a key of :data:`UNITS`, or empty.
        events: operators and numbers, in the order of the story.
    """

    text: str
    things: str
    start: int
    unit: str
    events: tuple[tuple[str, int], ...]

    @property
    def values(self) -> list[int]:
        """Return the number of things at the start and after each event; the last is the answer."""
        counts = [self.start * UNITS.get(self.unit, 1)]
        for sign, number in self.events:
            counts.append(_apply(sign, counts[-1], number))
        return counts

    @property
    def answer(self) -> int:
        """Return the only correct answer."""
        return self.values[-1]

    @property
    def single_expression(self) -> str:
        """Return all numbers in the order of the story, without a bracket."""
        factor = f"*{UNITS[self.unit]}" if self.unit else ""
        return f"{self.start}{factor}" + "".join(f"{sign}{n}" for sign, n in self.events)


def draw(rng: random.Random, *, steps: int, for_task: bool, units: float = UNIT_SHARE) -> Problem:
    """Return a random problem; one expression without brackets solves it only if it has one event.

    Args:
        rng: the only source of randomness.
        steps: number of events.
        for_task: whether it is for the task; otherwise it is for pretraining, and has none of the
            numbers that are held out.
        units: probability that it counts in a unit.
    """
    while True:
        unit = rng.choice(list(UNITS)) if rng.random() < units else ""
        start = rng.randint(10 if for_task else 2, 99)
        value = start * UNITS.get(unit, 1)
        events: list[tuple[str, int]] = []
        for _ in range(steps):
            sign = rng.choice(list(EVENTS))
            number = rng.randint(2, 9) if sign in "*/" else rng.randint(2, 99)
            if sign == "/":
                number = rng.choice([n for n in range(2, 10) if value % n == 0] or [0])
            if not number or number == value:
                break
            events.append((sign, number))
            value = _apply(sign, value, number)
            if not 1 <= value <= _LARGEST:
                break
        numbers = [start, *(number for _, number in events)]
        fits = for_task == held_out(start) and (for_task or not any(map(held_out, numbers)))
        if len(events) < steps or not 1 <= value <= _LARGEST or not fits or value in numbers:
            continue
        problem = _write_problem(start, unit, tuple(events), rng)
        if steps == 1 or calculate(problem.single_expression) != str(value):
            return problem


def make_splits(
    world: int, sizes: Mapping[str, int], shares: Mapping[int, float] = STEP_SHARES
) -> dict[str, tuple[Question, ...]]:
    """Return splits of the given sizes; no two problems have the same numbers and operators.

    Args:
        world: seed of the problems.
        sizes: number of problems by name; earlier splits do not depend on later ones.
        shares: share of the problems that have so many events.
    """
    rng = random.Random(_SPLITS_SEED + world)
    splits = draw_splits(
        rng,
        sizes,
        shares,
        lambda steps: draw(rng, steps=steps, for_task=True),
        lambda problem: (problem.start, problem.unit, problem.events),
    )
    return {
        name: tuple(
            _question(problem, f"c{world}-{name}-{number}")
            for number, problem in enumerate(problems)
        )
        for name, problems in splits.items()
    }


def _question(problem: Problem, name: str) -> Question:
    return Question(
        id=name,
        text=problem.text,
        answers=(str(problem.answer),),
        row={KIND: KINDS[len(problem.events)], "unit": problem.unit},
    )


def _write_problem(
    start: int, unit: str, events: tuple[tuple[str, int], ...], rng: random.Random
) -> Problem:
    person, things = rng.choice(PEOPLE), rng.choice(THINGS)
    counted = f"{start} {unit} {things}" if unit else f"{start} {things}"
    story = [f"{person} has {counted}."]
    story += [rng.choice(EVENTS[sign]).format(who=person, n=n) for sign, n in events]
    story.append(rng.choice(QUESTIONS).format(who=person, what=things))
    return Problem(" ".join(story), things, start, unit, events)


def _apply(sign: str, value: int, number: int) -> int:
    match sign:
        case "+":
            return value + number
        case "-":
            return value - number
        case "*":
            return value * number
        case _:
            return value // number
