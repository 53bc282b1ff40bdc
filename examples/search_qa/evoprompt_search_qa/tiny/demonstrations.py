"""How the demonstrators of the supervised stage follow an instruction, and the errors they make.

This file is what makes instructions matter, by construction: every idea of the bank moves the odds
of a strategy or of a slip. Demonstrators never search in several steps unless a sentence asks for
it, so a policy trained on them does not either, while it can if it is told to.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from evoprompt_tiny.habits import chance, choose, happens, odds

from evoprompt.types import Turn
from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.questions import HopQuestion
from evoprompt_search_qa.tiny.world import RELATIONS, names_in

Search = Callable[[str], Sequence[str]]


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
"""Log-odds of what demonstrators do unless a sentence tells them otherwise."""

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

_ASKS_FOR_STEPS = frozenset(idea for idea, effect in EFFECTS.items() if "steps" in effect)
_SLIP_PER_STEP = 0.3


def demonstrate(
    question: HopQuestion,
    ideas: Sequence[str],
    search: Search,
    rng: random.Random,
    careful: bool = False,
) -> tuple[Turn, ...]:
    """One episode of a demonstrator who was told ``ideas``, right or wrong.

    A ``careful`` one always searches and never slips, whatever it was told.
    """
    found = odds(HABITS, EFFECTS, ideas)
    if not _ASKS_FOR_STEPS.intersection(ideas):
        found["steps"] = -math.inf
    if careful:
        found |= {"direct": -math.inf, "slip": -math.inf}
    strategy = choose({name: found[name] for name in ("direct", "single", "steps")}, rng)
    thinks = happens(found["thinks"], rng)
    demonstrator = _Demonstrator(question, search, rng, chance(found["slip"]), thinks)
    if strategy == "direct":
        answer = protocol.NO_IDEA
    elif strategy == "steps":
        answer = demonstrator.step_by_step(happens(found["needless"], rng))
    else:
        answer = demonstrator.ask_everything(happens(found["needless"], rng))
    wordy, malformed = happens(found["wordy"], rng), happens(found["malformed"], rng)
    return (*demonstrator.turns, Turn(_final_action(answer, wordy, malformed, rng)))


class _Demonstrator:
    """Writes the search turns of one episode."""

    def __init__(
        self, question: HopQuestion, search: Search, rng: random.Random, slip: float, thinks: bool
    ) -> None:
        self.turns: list[Turn] = []
        self._question = question
        self._search_tool = search
        self._rng = rng
        self._slip = slip
        self._thinks = thinks

    def ask_everything(self, needless: bool) -> str:
        """One search with the words of the question; believes the first result."""
        query = self._question.description
        results = self._search(query)
        if needless:
            self._repeat(query)
        return self._read(results, _value(results[0]))

    def step_by_step(self, needless: bool) -> str:
        """One search a fact, each about the name that the one before has found."""
        found = self._question.path[0]
        results: Sequence[str] = ()
        for relation in self._question.relations:
            if self._slips():
                relation = self._rng.choice(list(RELATIONS))
            query = f"the {relation} of {found}"
            results = self._search(query)
            found = _value(self._rng.choice(results) if self._slips() else results[0])
        if needless:
            self._repeat(query)
        return self._read(results, found)

    def _search(self, query: str) -> Sequence[str]:
        results = self._search_tool(query)
        thought = f"{protocol.THINK} i need {query} {protocol.END_THINK} " if self._thinks else ""
        action = f"{thought}{protocol.SEARCH} {query} {protocol.END_SEARCH}"
        self.turns.append(Turn(action, protocol.observation(results)))
        return results

    def _repeat(self, query: str) -> None:
        while len(self.turns) < protocol.TINY_LIMITS.calls:
            self._search(query)

    def _read(self, results: Sequence[str], found: str) -> str:
        if self._rng.random() < self._slip:
            return self._rng.choice(names_in(self._rng.choice(results)))
        return found

    def _slips(self) -> bool:
        return self._rng.random() < self._slip * _SLIP_PER_STEP


def _final_action(answer: str, wordy: bool, malformed: bool, rng: random.Random) -> str:
    body = f"the answer is {answer}" if wordy else answer
    if not malformed:
        return f"{protocol.ANSWER} {body} {protocol.END_ANSWER}"
    return rng.choice([body, f"{protocol.ANSWER} {body}", f"{body} {protocol.END_ANSWER}"])


def _value(passage: str) -> str:
    return passage.split()[-2]
