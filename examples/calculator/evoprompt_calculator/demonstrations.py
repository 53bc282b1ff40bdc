"""Demonstrators of the supervised stage: how they follow an instruction, and their errors.

By construction, this file makes instructions matter: every idea of the bank moves the odds of a
strategy or of a slip. Demonstrators never calculate in several steps unless a sentence requests it.
So a policy trained on them does not either, but can do it under an instruction.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from evoprompt_tiny.habits import Script, chance, choose, happens, odds
from evoprompt_tiny.writing import WRITING_EFFECTS

from evoprompt_calculator.bank import CLOSING, OPENING
from evoprompt_calculator.problems import EVENTS, UNITS, Problem

HABITS: Mapping[str, float] = {
    "head": -1.5,  # answers without a calculation, that it cannot do
    "single": 0.0,  # one expression of all numbers in the order of the story
    "steps": -7.0,  # one event after the other; competes with the two above
    "slip": -1.6,  # per decision, takes a wrong number or operator
    "unit": 0.0,  # overlooks a unit
    "wordy": 0.0,  # wraps the answer in a sentence
    "malformed": -2.2,  # loses a bracket of a call
    "needless": -9.0,  # goes on calculating when it has the answer
}
"""Log-odds of the demonstrators' habits without a sentence that changes them."""

EFFECTS: Mapping[str, Mapping[str, float]] = {
    "one-step": {"steps": 4.0},
    "follow": {"steps": 4.0},
    "every-step": {"steps": 3.0, "head": -1.0},
    "in-order": {"steps": 3.0},
    "split": {"steps": 2.5},
    "tool-first": {"head": -2.5},
    "once": {"single": 4.0},
    "whole": {"single": 2.0},
    "head": {"head": 4.0},
    "hurry": {"single": 1.0, "head": 1.5},
    "exhaust": {"needless": 10.0},
    "stop": {"needless": -4.0},
    "units": {"unit": -4.0},
    "ignore-units": {"unit": 3.0},
    **WRITING_EFFECTS,
}
"""How the ideas of the bank move the odds; an idea that is missing here does nothing."""

STEP_IDEAS = tuple(idea for idea, effect in EFFECTS.items() if "steps" in effect)

MOST_CALLS = 5
_SLIP_PER_STEP = 0.3


def demonstrate(
    problem: Problem, ideas: Sequence[str], rng: random.Random, *, careful: bool = False
) -> Script:
    """Yield one episode of a demonstrator under ``ideas``, right or wrong.

    A ``careful`` demonstrator always calculates, heeds units and never slips, whatever the ideas
    are.
    """
    habit_odds = odds(HABITS, EFFECTS, ideas)
    if not set(STEP_IDEAS).intersection(ideas):
        habit_odds["steps"] = -math.inf
    if careful:
        habit_odds |= {
            "head": -math.inf,
            "slip": -math.inf,
            "unit": -math.inf,
            "malformed": -math.inf,
        }
    strategy = choose({name: habit_odds[name] for name in ("head", "single", "steps")}, rng)
    factor = UNITS.get(problem.unit, 1)
    if factor > 1 and happens(habit_odds["unit"], rng):
        factor = 1
    slip = chance(habit_odds["slip"])
    events = [_slipped(event, problem, slip * _SLIP_PER_STEP, rng) for event in problem.events]
    expressions = [f"*{factor}"] if factor > 1 else []
    expressions += [f"{sign}{number}" for sign, number in events]
    closing = CLOSING.replace("}", "", 1) if happens(habit_odds["malformed"], rng) else CLOSING
    needless, wordy = happens(habit_odds["needless"], rng), happens(habit_odds["wordy"], rng)
    result = str(problem.start)
    if strategy == "single":
        expressions = ["".join(expressions)]
    if strategy != "head":
        for expression in expressions:
            call_text = result + expression
            result = yield OPENING + call_text + closing
        for _ in range(MOST_CALLS - len(expressions) if needless else 0):
            result = yield OPENING + call_text + closing
    if rng.random() < slip:
        result = str(rng.choice(_numbers(problem)))
    yield f"The answer is {result} {problem.things}." if wordy else result


def _slipped(
    event: tuple[str, int], problem: Problem, probability: float, rng: random.Random
) -> tuple[str, int]:
    """Return the event, or with that probability one with another operator or number."""
    sign, number = event
    if rng.random() >= probability:
        return event
    if rng.random() < 0.5:
        return rng.choice(list(EVENTS)), number
    return sign, rng.choice(_numbers(problem))


def _numbers(problem: Problem) -> list[int]:
    return [problem.start, *(number for _, number in problem.events)]
