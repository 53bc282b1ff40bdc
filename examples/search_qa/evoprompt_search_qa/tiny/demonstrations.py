"""Demonstrators of the supervised stage: how they follow an instruction, and their errors.

By construction, this file makes instructions matter: every idea of the bank moves the odds of a
strategy or of a slip. Demonstrators never search in several steps unless a sentence requests it. So
a policy trained on them does not either, but can do it under an instruction.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Mapping, Sequence

from evoprompt_tiny.habits import Script, chance, choose, happens, odds

from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.questions import HopQuestion
from evoprompt_search_qa.tiny.world import RELATIONS

HABITS: Mapping[str, float] = {
    "direct": -1.5,  # answers without a search, that it does not know
    "single": 0.0,  # searches once, with the words of the question
    "steps": -7.0,  # looks up one fact after the other; competes with the two above
    "slip": -1.6,  # per decision, takes a wrong relation, passage or name
    "wordy": 0.0,  # wraps the answer in a sentence
    "malformed": -2.2,  # loses a tag of the answer
    "needless": -9.0,  # goes on searching when it has the answer
    "thinks": -6.0,  # writes down what it needs before each query
}
"""Log-odds of the demonstrators' habits without a sentence that changes them."""

EFFECTS: Mapping[str, Mapping[str, float]] = {
    "one-fact": {"steps": 4.0},
    "follow": {"steps": 4.0},
    "continue": {"steps": 3.0, "direct": -1.0},
    "innermost": {"steps": 3.0},
    "decompose": {"steps": 2.5},
    "search-first": {"direct": -2.5},
    "once": {"single": 4.0},
    "whole": {"single": 2.0},
    "memory": {"direct": 4.0},
    "hurry": {"single": 1.0, "direct": 1.5},
    "exhaust": {"needless": 10.0},
    "stop": {"needless": -4.0},
    "name-only": {"wordy": -2.5},
    "sentence": {"wordy": 3.0},
    "context": {"wordy": 2.0},
    "close-tags": {"malformed": -2.0},
    "loose-tags": {"malformed": 3.0},
    "evidence": {"slip": -1.5},
    "copy": {"slip": -1.0},
    "guess": {"slip": 2.0},
    "think-aloud": {"thinks": 8.0},
}
"""How the ideas of the bank move the odds; an idea that is missing here does nothing."""

STEP_IDEAS = sorted(idea for idea, effect in EFFECTS.items() if "steps" in effect)
_SLIP_PER_STEP = 0.3


def demonstrate(
    question: HopQuestion, ideas: Sequence[str], rng: random.Random, *, careful: bool = False
) -> Script:
    """Yield one episode of a demonstrator under ``ideas``, right or wrong.

    A ``careful`` demonstrator always searches and never slips, whatever the ideas are.
    """
    habit_odds = odds(HABITS, EFFECTS, ideas)
    if not set(STEP_IDEAS).intersection(ideas):
        habit_odds["steps"] = -math.inf
    if careful:
        habit_odds |= {"direct": -math.inf, "slip": -math.inf}
    strategy = choose({name: habit_odds[name] for name in ("direct", "single", "steps")}, rng)
    thinks, slip = happens(habit_odds["thinks"], rng), chance(habit_odds["slip"])
    answer = protocol.NO_IDEA
    if strategy != "direct":
        needless = happens(habit_odds["needless"], rng)
        steps = _step_by_step if strategy == "steps" else _search_once
        num_searches, query, facts, answer = yield from steps(question, thinks, slip, rng)
        for _ in range(protocol.TINY_LIMITS.calls - num_searches if needless else 0):
            yield _search(query, thinks)
        if rng.random() < slip:
            answer = rng.choice(rng.choice(facts))
    wordy, malformed = happens(habit_odds["wordy"], rng), happens(habit_odds["malformed"], rng)
    body = f"the answer is {answer}" if wordy else answer
    broken = [body, f"{protocol.ANSWER} {body}", f"{body} {protocol.END_ANSWER}"]
    yield rng.choice(broken) if malformed else f"{protocol.ANSWER} {body} {protocol.END_ANSWER}"


Fact = tuple[str, str]
"""Subject and value of a passage."""

Steps = Generator[str, str, tuple[int, str, Sequence[Fact], str]]
"""Searches; ends with their number, the last query, its facts, and the answer."""


def _search_once(question: HopQuestion, thinks: bool, slip: float, rng: random.Random) -> Steps:
    """Search once with the words of the question, and believe the first result."""
    facts = _facts((yield _search(question.description, thinks)))
    return 1, question.description, facts, facts[0][1]


def _step_by_step(question: HopQuestion, thinks: bool, slip: float, rng: random.Random) -> Steps:
    """Search once per fact, each time about the name that the search before has found."""
    answer, query, facts = question.path[0], "", list[Fact]()
    for relation in question.relations:
        if rng.random() < slip * _SLIP_PER_STEP:
            relation = rng.choice(list(RELATIONS))
        query = f"the {relation} of {answer}"
        facts = _facts((yield _search(query, thinks)))
        answer = (rng.choice(facts) if rng.random() < slip * _SLIP_PER_STEP else facts[0])[1]
    return len(question.relations), query, facts, answer


def _search(query: str, thinks: bool) -> str:
    thought = f"{protocol.THINK} i need {query} {protocol.END_THINK} " if thinks else ""
    return f"{thought}{protocol.SEARCH} {query} {protocol.END_SEARCH}"


def _facts(passages: str) -> list[Fact]:
    """Return subjects and values of passages such as ``the mayor of ulmburg is bo .``."""
    words = passages.split()
    return list(zip(words[3::7], words[5::7], strict=True))
