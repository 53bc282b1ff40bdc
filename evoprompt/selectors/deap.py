"""Any selection operator of DEAP, drawing from the engine's generator."""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from deap import base

from evoprompt.errors import InputError
from evoprompt.types import Standing

_MODULES = ("deap.tools.selection", "deap.tools.emo")


def private_copy(module: str) -> ModuleType:
    """A fresh copy of a DEAP module whose ``random`` can be replaced without touching anyone.

    DEAP draws from the global generator; seeding or swapping that is neither reproducible with
    threads nor polite. Loading a copy takes a fraction of a millisecond.
    """
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


@dataclass(slots=True)
class _Individual:
    standing: Standing
    fitness: base.Fitness


class Deap:
    """Selects with DEAP's ``tools.sel*`` by importance weight.

    ``nsga2``, ``nsga3`` and ``spea2`` rank by the weight and by ``objectives``; the lexicase
    family compares question by question. Whatever the operator returns, exactly ``k`` standings
    come back: roulette on weights that sum to nothing, which DEAP answers with an empty list,
    draws evenly, and negative weights are shifted before a roulette.

    Args:
        operator: name after ``sel``, in any case: ``"best"``, ``"tournament"``, ``"nsga2"``, ...
        arguments: further arguments of the operator, such as ``{"tournsize": 3}``.
        objectives: metric -> direction (positive: more is better) for multi-objective operators.

    Raises:
        InputError: DEAP has no such operator.
    """

    def __init__(
        self,
        operator: str,
        arguments: Mapping[str, Any] | None = None,
        objectives: Mapping[str, float] | None = None,
    ) -> None:
        self.operator = operator
        self.arguments = dict(arguments or {})
        self.objectives = dict(objectives or {})
        self._modules = [private_copy(module) for module in _MODULES]
        self._select = self._find(operator)

    def _find(self, operator: str) -> Callable[..., list[_Individual]]:
        wanted = "sel" + operator.replace("_", "").replace("-", "").lower()
        names = [
            (module, name)
            for module in self._modules
            for name in vars(module)
            if name.startswith("sel")
        ]
        for module, name in names:
            if name.lower() == wanted:
                found: Callable[..., list[_Individual]] = getattr(module, name)
                return found
        raise InputError(
            f"DEAP has no selection operator {operator!r}; required: one of "
            f"{', '.join(sorted({name[3:].lower() for _, name in names}))}"
        )

    def select(
        self, standings: Sequence[Standing], k: int, rng: random.Random
    ) -> Sequence[Standing]:
        """Exactly ``k`` standings as the operator chooses them, repeated when ``k`` is larger."""
        for module in self._modules:
            vars(module)["random"] = rng
        individuals = self._individuals(standings)
        chosen: list[Standing] = []
        while len(chosen) < k:
            wanted = min(k - len(chosen), len(standings))
            found = self._select(individuals, wanted, **self.arguments)
            if not found:
                return chosen + rng.choices(standings, k=k - len(chosen))
            chosen += [individual.standing for individual in found]
        return chosen[:k]

    def _individuals(self, standings: Sequence[Standing]) -> list[_Individual]:
        values = self._values(standings)
        signs = (1.0, *self.objectives.values()) if self._ranks_objectives else None
        width = len(values[0])

        class Fitness(base.Fitness):  # type: ignore[misc]
            weights = signs or (1.0,) * width

        return [
            _Individual(standing, Fitness(value))
            for standing, value in zip(standings, values, strict=True)
        ]

    @property
    def _ranks_objectives(self) -> bool:
        return self.operator.lower().startswith(("nsga", "spea"))

    def _values(self, standings: Sequence[Standing]) -> list[tuple[float, ...]]:
        if self._ranks_objectives:
            return [
                (standing.weight, *(standing.objectives.get(name, 0.0) for name in self.objectives))
                for standing in standings
            ]
        if "lexicase" in self.operator.lower():
            # A question a candidate has not met counts as its average: neither won nor lost.
            questions = sorted({question for s in standings for question in s.by_question})
            return [
                tuple(s.by_question.get(question, s.weight) for question in questions)
                or (s.weight,)
                for s in standings
            ]
        weights = [standing.weight for standing in standings]
        low = min(weights)
        if "roulette" in self.operator.lower() and low < 0:
            weights = [weight - low for weight in weights]
        return [(weight if math.isfinite(weight) else low,) for weight in weights]
