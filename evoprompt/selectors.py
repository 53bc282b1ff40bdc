"""Selectors that ship with evoprompt: samplers, survivor selectors and parent selectors."""

from __future__ import annotations

import importlib.util
import inspect
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isfunction
from statistics import fmean
from types import ModuleType
from typing import Any

import numpy as np
from deap import base
from pydantic import BaseModel, Field, JsonValue

from evoprompt.roles import Selector
from evoprompt.support.errors import InputError
from evoprompt.types import CandidateStats

__all__ = [
    "Deap",
    "Softmax",
    "select_distinct",
]


class Softmax(Selector):
    """Draws in proportion to exp(weight / temperature) (paper Eq. 4).

    Selection probability ``exp(w_j / tau) / sum_k exp(w_k / tau)``, with replacement.

    Args:
        temperature: ``tau``, finite and greater than 0. Small values favour the best, large ones
            draw evenly.
    """

    class Settings(BaseModel, extra="forbid"):
        """Settings in a configuration."""

        temperature: float = Field(0.2, gt=0, allow_inf_nan=False, description="tau of Eq. 4")

    def __init__(self, temperature: float = 0.2) -> None:
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature is {temperature}; required: finite and greater than 0")
        self.temperature = temperature

    def probabilities(self, candidate_stats: Sequence[CandidateStats]) -> list[float]:
        """Return the probability of each candidate; stable for weights of any size."""
        top = max(stats.weight for stats in candidate_stats)
        powers = [math.exp((stats.weight - top) / self.temperature) for stats in candidate_stats]
        total = math.fsum(powers)
        return [power / total for power in powers]

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        """``k`` independent draws."""
        return rng.choices(candidate_stats, self.probabilities(candidate_stats), k=k)


_PARETO = ("nsga2", "nsga3", "spea2")
_PROPORTIONAL = ("roulette", "stochasticuniversalsampling")
_UNFIT = "seltournamentdcd"  # takes no fewer than four candidates, and multiples of four


@dataclass(slots=True)
class _Individual:
    stats: CandidateStats
    fitness: base.Fitness

    def __len__(self) -> int:
        """Return the number of words: the size that DEAP's double tournament keeps small."""
        return len(self.stats.candidate.text.split())


class Deap(Selector):
    """Selector by DEAP's operators on importance weights: the best, tournaments, fronts, lexicase.

    ``nsga2``, ``nsga3`` and ``spea2`` rank by the weight and by ``objectives``; the lexicase
    family compares question by question. Exactly ``k`` candidates are returned for every operator.
    Operators that draw in proportion to the weight cannot take negative ones: all are shifted by
    the lowest, and all draws are even where nothing is left to tell candidates apart. An objective
    that was not measured counts as average.

    Args:
        operator: name after ``sel``, in any case: ``"best"``, ``"tournament"``, ``"nsga2"``, ...
        arguments: further arguments of the operator, such as ``{"tournsize": 3}``.
        objectives: metric -> direction (positive: more is better) for multi-objective operators.

    Raises:
        InputError: DEAP has no such operator, it takes other arguments, or an objective has no
            direction.
    """

    class Settings(BaseModel, extra="forbid"):
        """Settings in a configuration."""

        operator: str = Field("best", description='name after "sel": tournament, nsga2, lexicase')
        arguments: dict[str, JsonValue] = Field(
            default_factory=dict, description="further ones of the operator: {tournsize: 3}"
        )
        objectives: dict[str, float] = Field(
            default_factory=dict,
            description="metrics to rank by besides the weight; positive: more is better",
        )

    def __init__(
        self,
        operator: str,
        arguments: Mapping[str, Any] | None = None,
        objectives: Mapping[str, float] | None = None,
    ) -> None:
        self.operator = operator.replace("_", "").replace("-", "").lower()
        self.arguments = dict(arguments or {})
        self.objectives = dict(objectives or {})
        self._modules = [_private_copy(f"deap.tools.{name}") for name in ("selection", "emo")]
        self._select = self._find()
        undirected = [name for name, direction in self.objectives.items() if not direction]
        if undirected:
            raise InputError(
                f"the objectives {', '.join(undirected)} have the direction 0; required: a "
                "positive number if more is better, a negative one if less is"
            )

    def _find(self) -> Callable[..., list[_Individual]]:
        operators = {
            name.lower(): call
            for module in self._modules
            for name, call in vars(module).items()
            if name.startswith("sel") and isfunction(call)
        }
        del operators[_UNFIT]
        operator = operators.get(f"sel{self.operator}")
        if operator is None:
            raise InputError(
                f"DEAP has no selection operator {self.operator!r}; required: one of "
                f"{', '.join(sorted(name.removeprefix('sel') for name in operators))}"
            )
        signature = inspect.signature(operator)
        try:
            signature.bind([], 1, **self.arguments)
        except TypeError as error:
            further = ", ".join(list(signature.parameters)[2:]) or "none"
            raise InputError(
                f"the arguments {self.arguments} do not suit DEAP's {self.operator}: {error}; "
                f"required: those of {further} that have no default"
            ) from error
        return operator

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        """Exactly ``k`` candidates as the operator chooses them, repeated when ``k`` is larger."""
        values = self._values(candidate_stats)
        if self.operator in _PROPORTIONAL and not sum(value[0] for value in values):
            return rng.choices(candidate_stats, k=k)
        individuals = self._individuals(candidate_stats, values)
        chosen: list[CandidateStats] = []
        for module in self._modules:
            vars(module)["random"] = rng
            vars(module)["numpy"] = _NumPy(rng)
        while len(chosen) < k:
            number = min(k - len(chosen), len(candidate_stats))
            selected = self._select(individuals, number, **self.arguments)
            chosen += [individual.stats for individual in selected]
        return chosen[:k]

    def _individuals(
        self, candidate_stats: Sequence[CandidateStats], values: Sequence[tuple[float, ...]]
    ) -> list[_Individual]:
        signs = (1.0, *self.objectives.values()) if self.operator in _PARETO else None
        width = len(values[0])

        class Fitness(base.Fitness):  # type: ignore[misc]
            weights = signs or (1.0,) * width

        return [
            _Individual(stats, Fitness(value))
            for stats, value in zip(candidate_stats, values, strict=True)
        ]

    def _values(self, candidate_stats: Sequence[CandidateStats]) -> list[tuple[float, ...]]:
        """Return the values that the operator compares: tuples of equal length."""
        weights = [stats.weight for stats in candidate_stats]
        if self.operator in _PARETO:
            columns = [
                _filled([stats.objectives.get(name) for stats in candidate_stats])
                for name in self.objectives
            ]
            return list(zip(weights, *columns, strict=True))
        if self.operator.endswith("lexicase"):
            return _by_question(candidate_stats, weights)
        shift = min(*weights, 0.0) if self.operator in _PROPORTIONAL else 0.0
        return [(weight - shift,) for weight in weights]


def _filled(values: Sequence[float | None]) -> list[float]:
    """Return ``values`` with missing ones replaced by the mean."""
    known_values = [value for value in values if value is not None]
    mean = fmean(known_values) if known_values else 0.0
    return [mean if value is None else value for value in values]


def _by_question(
    candidate_stats: Sequence[CandidateStats], weights: Sequence[float]
) -> list[tuple[float, ...]]:
    """Return the mean rewards of each candidate, question by question.

    A question that a candidate never had counts as its weight.
    """
    questions = sorted({question for s in candidate_stats for question in s.by_question})
    rows: list[tuple[float, ...]] = []
    for stats, weight in zip(candidate_stats, weights, strict=True):
        means = tuple(stats.by_question.get(question, weight) for question in questions)
        rows.append(means or (weight,))
    return rows


def sound_choice(
    selector: Selector, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
) -> list[CandidateStats]:
    """Return ``k`` of ``candidate_stats``, selected by ``selector``.

    Raises:
        ValueError: the selector returned another number, or a candidate that was not given.
    """
    chosen = list(selector.select(candidate_stats, k, rng))
    given_ids = {stats.candidate.id for stats in candidate_stats}
    strangers = [
        stats
        for stats in chosen
        if not isinstance(stats, CandidateStats) or stats.candidate.id not in given_ids
    ]
    if strangers:
        raise ValueError(f"it chose {strangers[0]!r}; required: only candidates it was given")
    if len(chosen) != k:
        raise ValueError(f"it chose {len(chosen)} candidates; required: exactly {k}")
    return chosen


def select_distinct(
    selector: Selector, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
) -> list[CandidateStats]:
    """Return ``min(k, len(candidates))`` different candidates, in the order of their selection.

    Repetitions are dropped, and the selector is called again for the missing number among the
    candidates not selected yet.

    Raises:
        ValueError: the selector returned another number, or a candidate that was not given.
    """
    chosen: dict[str, CandidateStats] = {}
    remaining = {stats.candidate.id: stats for stats in candidate_stats}
    while remaining and len(chosen) < k:
        eligible = list(remaining.values())
        for stats in sound_choice(selector, eligible, min(k - len(chosen), len(eligible)), rng):
            if remaining.pop(stats.candidate.id, None):
                chosen[stats.candidate.id] = stats
    return list(chosen.values())


class _NumPy:
    """NumPy with the standard library's generator in the place of ``numpy.random``."""

    def __init__(self, rng: random.Random) -> None:
        self.random = rng

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _private_copy(module: str) -> ModuleType:
    """Return a copy of a module of DEAP that draws from the given generator.

    DEAP draws from the global generators of ``random`` and NumPy. Seeding or swapping those is
    neither reproducible with threads nor polite, so its modules are loaded once more, each user's
    copies its own. Loading one takes a fraction of a millisecond.
    """
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy
