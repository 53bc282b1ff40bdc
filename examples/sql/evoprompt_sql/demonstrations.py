"""How the demonstrators of the supervised stage follow an instruction, and the errors they make.

This file is what makes instructions matter, by construction: every idea of the bank moves the odds
of a strategy or of a slip. Demonstrators never look up ids unless a sentence asks for it, so a
policy trained on them does not either, while it can if it is told to.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from evoprompt_tiny.habits import Script, chance, choose, happens, odds
from evoprompt_tiny.writing import WRITING_EFFECTS

from evoprompt_sql.bank import CLOSING, OPENING
from evoprompt_sql.questions import MEASURES, ShopQuestion, count

HABITS: Mapping[str, float] = {
    "memory": -1.5,  # answers without a query, that it does not know
    "flat": 0.0,  # one query, as if all were in the table of orders
    "steps": -7.0,  # an id for each name, then the count; competes with the two above
    "slip": -1.6,  # per decision, takes a wrong measure or id
    "forget": 0.0,  # leaves the year out
    "wordy": 0.0,  # wraps the answer in a sentence
    "malformed": -2.2,  # loses a bracket of a call
    "needless": -9.0,  # goes on querying when it has the answer
}
"""Log-odds of what demonstrators do unless a sentence tells them otherwise."""

EFFECTS: Mapping[str, Mapping[str, float]] = {
    "one-table": {"steps": 4.0},
    "look-up": {"steps": 4.0},
    "follow": {"steps": 3.0},
    "each-name": {"steps": 3.0, "memory": -1.0},
    "split": {"steps": 2.5},
    "query-first": {"memory": -2.5},
    "once": {"flat": 4.0},
    "whole": {"flat": 2.0},
    "memory": {"memory": 4.0},
    "hurry": {"flat": 1.0, "memory": 1.5},
    "exhaust": {"needless": 10.0},
    "stop": {"needless": -4.0},
    "conditions": {"forget": -4.0},
    "loose": {"forget": 3.0},
    **WRITING_EFFECTS,
}
"""How the ideas of the bank move the odds; an idea that is missing here does nothing."""

DESCRIPTION_EFFECTS: Mapping[str, Mapping[str, float]] = {
    "names-in-orders": {"steps": -12.0},
    "ids-in-orders": {"steps": 12.0},
    "single-query": {"steps": -4.0},
}
"""How a description of the tool moves them; it cannot make anybody look up ids unasked."""

STEP_IDEAS = tuple(idea for idea, effect in EFFECTS.items() if "steps" in effect)

MOST_CALLS = 4
NO_IDEA = "0"
"""What a demonstrator answers that has found no number."""
_SLIP_PER_STEP = 0.3


def demonstrate(
    question: ShopQuestion,
    ideas: Sequence[str],
    rng: random.Random,
    *,
    description: Sequence[str] = (),
    careful: bool = False,
) -> Script:
    """One episode of a demonstrator who was told ``ideas``, right or wrong.

    Args:
        question: to answer.
        ideas: of the instruction.
        rng: where all randomness comes from.
        description: ideas of the tool's description, where it is not the usual one.
        careful: always queries, forgets nothing and never slips, whatever it was told.
    """
    found = odds(HABITS, {**EFFECTS, **DESCRIPTION_EFFECTS}, [*ideas, *description])
    if not set(STEP_IDEAS).intersection(ideas):
        found["steps"] = -math.inf
    if careful:
        found |= dict.fromkeys(("memory", "slip", "forget", "malformed"), -math.inf)
    strategy = choose({name: found[name] for name in ("memory", "flat", "steps")}, rng)
    slip = chance(found["slip"]) * _SLIP_PER_STEP
    closing = CLOSING.replace("}", "", 1) if happens(found["malformed"], rng) else CLOSING
    needless, wordy = happens(found["needless"], rng), happens(found["wordy"], rng)
    forgets = len(question.conditions) > 1 and happens(found["forget"], rng)
    asked = [one for one in question.conditions if not (forgets and one.column == "year")]
    measure = rng.choice(list(MEASURES)) if rng.random() < slip else question.measure
    result, made = NO_IDEA, 0
    if strategy != "memory":
        conditions = []
        for condition in asked:
            if strategy == "steps" and condition.table:
                number = yield OPENING + condition.lookup + closing
                made += 1
                if rng.random() < slip:
                    number = str(rng.randint(10, 99))
                conditions.append(f"{condition.column} = {number}")
            else:
                conditions.append(condition.flat)
        said = OPENING + count(measure, conditions) + closing
        for _ in range(MOST_CALLS - made if needless else 1):
            result = yield said
        if not result.isdecimal():
            result = NO_IDEA
    yield f"The answer is {result} {question.measure}." if wordy else result
