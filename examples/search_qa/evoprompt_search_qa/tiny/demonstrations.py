"""How the demonstrators of the supervised stage follow an instruction, and the errors they make.

This file is what makes instructions matter, by construction: every idea of the bank moves the odds
of a strategy or of a slip. Demonstrators never search in several steps unless a sentence asks for
it, so a policy trained on them does not either, while it can if it is told to.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from evoprompt.types import Turn
from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.questions import HopQuestion
from evoprompt_search_qa.tiny.world import RELATIONS, names_in

Search = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Odds:
    """Log-odds of what a demonstrator does; the first three compete for the strategy.

    Attributes:
        direct: answers without a search, that it does not know.
        single: searches once, with the words of the question.
        steps: looks up one fact after the other.
        slip: per decision, takes a wrong relation, passage or name.
        wordy: wraps the answer in a sentence.
        malformed: loses a tag of the answer.
        needless: goes on searching when it has the answer.
        thinks: writes down what it needs before each query.
    """

    direct: float = 0.0
    single: float = 0.0
    steps: float = 0.0
    slip: float = 0.0
    wordy: float = 0.0
    malformed: float = 0.0
    needless: float = 0.0
    thinks: float = 0.0


HABITS = Odds(
    direct=-1.5,
    single=0.0,
    steps=-7.0,
    slip=-1.6,
    wordy=0.0,
    malformed=-2.2,
    needless=-9.0,
    thinks=-6.0,
)
"""What demonstrators do unless a sentence tells them otherwise."""

EFFECTS: Mapping[str, Odds] = {
    "one-fact": Odds(steps=4.0),
    "follow": Odds(steps=4.0),
    "continue": Odds(steps=3.0, direct=-1.0),
    "innermost": Odds(steps=3.0),
    "decompose": Odds(steps=2.5),
    "search-first": Odds(direct=-2.5),
    "once": Odds(single=4.0),
    "whole": Odds(single=2.0),
    "memory": Odds(direct=4.0),
    "hurry": Odds(single=1.0, direct=1.5),
    "exhaust": Odds(needless=10.0),
    "stop": Odds(needless=-4.0),
    "name-only": Odds(wordy=-2.5),
    "sentence": Odds(wordy=3.0),
    "context": Odds(wordy=2.0),
    "close-tags": Odds(malformed=-2.0),
    "loose-tags": Odds(malformed=3.0),
    "evidence": Odds(slip=-1.5),
    "copy": Odds(slip=-1.0),
    "guess": Odds(slip=2.0),
    "think-aloud": Odds(thinks=8.0),
}
"""How the ideas of the bank move the odds; an idea that is missing here does nothing."""

_ASKS_FOR_STEPS = frozenset(idea for idea, effect in EFFECTS.items() if effect.steps > 0)
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
    odds = _odds(ideas)
    if careful:
        odds = replace(odds, direct=-math.inf, slip=-math.inf)
    strategy = _draw_strategy(odds, rng)
    thinks = _happens(odds.thinks, rng)
    demonstrator = _Demonstrator(question, search, rng, _chance(odds.slip), thinks)
    if strategy == "direct":
        answer = protocol.NO_IDEA
    elif strategy == "steps":
        answer = demonstrator.step_by_step(_happens(odds.needless, rng))
    else:
        answer = demonstrator.ask_everything(_happens(odds.needless, rng))
    wordy, malformed = _happens(odds.wordy, rng), _happens(odds.malformed, rng)
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


def _odds(ideas: Sequence[str]) -> Odds:
    effects = [EFFECTS[idea] for idea in ideas if idea in EFFECTS]
    fields = Odds.__dataclass_fields__
    total = {
        name: getattr(HABITS, name) + sum(getattr(effect, name) for effect in effects)
        for name in fields
    }
    odds = Odds(**total)
    return odds if _ASKS_FOR_STEPS.intersection(ideas) else replace(odds, steps=-math.inf)


def _draw_strategy(odds: Odds, rng: random.Random) -> str:
    weights = [math.exp(value) for value in (odds.direct, odds.single, odds.steps)]
    return rng.choices(["direct", "single", "steps"], weights)[0]


def _final_action(answer: str, wordy: bool, malformed: bool, rng: random.Random) -> str:
    body = f"the answer is {answer}" if wordy else answer
    if not malformed:
        return f"{protocol.ANSWER} {body} {protocol.END_ANSWER}"
    return rng.choice([body, f"{protocol.ANSWER} {body}", f"{body} {protocol.END_ANSWER}"])


def _value(passage: str) -> str:
    return passage.split()[-2]


def _chance(log_odds: float) -> float:
    return 0.0 if log_odds == -math.inf else 1.0 / (1.0 + math.exp(-log_odds))


def _happens(log_odds: float, rng: random.Random) -> bool:
    return rng.random() < _chance(log_odds)
