"""Any selection operator of DEAP, drawing from the engine's generator."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from deap import base

from evoprompt.errors import InputError
from evoprompt.roles import Selector
from evoprompt.selectors.deap_rng import FencedDeap
from evoprompt.types import CandidateStats

_PARETO = ("nsga2", "nsga3", "spea2")
_PROPORTIONAL = ("roulette", "stochasticuniversalsampling")
_UNFIT = "seltournamentdcd"  # takes no fewer than four candidates, and multiples of four


@dataclass(slots=True)
class _Individual:
    stats: CandidateStats
    fitness: base.Fitness

    def __len__(self) -> int:
        """Words of the instruction: the size that DEAP's double tournament keeps small."""
        return len(self.stats.candidate.text.split())


class Deap(Selector):
    """Selects with DEAP's ``tools.sel*`` by importance weight.

    ``nsga2``, ``nsga3`` and ``spea2`` rank by the weight and by ``objectives``; the lexicase
    family compares question by question. Whatever the operator returns, exactly ``k`` candidates
    come back. Operators that draw in proportion to the weight cannot take negative ones: all are
    shifted by the lowest, and all draws are even where nothing is left to tell candidates apart.
    What was not measured, or is not a number, counts as average; as a weight, it counts as the
    lowest.

    Args:
        operator: name after ``sel``, in any case: ``"best"``, ``"tournament"``, ``"nsga2"``, ...
        arguments: further arguments of the operator, such as ``{"tournsize": 3}``.
        objectives: metric -> direction (positive: more is better) for multi-objective operators.

    Raises:
        InputError: DEAP has no such operator, it takes other arguments, or an objective has no
            direction.
    """

    def __init__(
        self,
        operator: str,
        arguments: Mapping[str, Any] | None = None,
        objectives: Mapping[str, float] | None = None,
    ) -> None:
        self.operator = operator.replace("_", "").replace("-", "").lower()
        self.arguments = dict(arguments or {})
        self.objectives = dict(objectives or {})
        self._deap = FencedDeap("deap.tools.selection", "deap.tools.emo")
        self._select = self._find()
        undirected = [name for name, direction in self.objectives.items() if not direction]
        if undirected:
            raise InputError(
                f"the objectives {', '.join(undirected)} have the direction 0; required: a "
                "positive number if more is better, a negative one if less is"
            )

    def _find(self) -> Callable[..., list[_Individual]]:
        found = {name.lower(): call for name, call in self._deap.functions("sel").items()}
        del found[_UNFIT]
        operator = found.get(f"sel{self.operator}")
        if operator is None:
            raise InputError(
                f"DEAP has no selection operator {self.operator!r}; required: one of "
                f"{', '.join(sorted(name.removeprefix('sel') for name in found))}"
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
        if self.operator in _PROPORTIONAL and not 0 < sum(value[0] for value in values) < math.inf:
            return rng.choices(candidate_stats, k=k)
        individuals = self._individuals(candidate_stats, values)
        chosen: list[CandidateStats] = []
        with self._deap.drawing_from(rng):
            while len(chosen) < k:
                wanted = min(k - len(chosen), len(candidate_stats))
                found = self._select(individuals, wanted, **self.arguments)
                chosen += [individual.stats for individual in found]
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
        """What the operator compares: one tuple a stats, all of one length, all finite."""
        weights = [stats.weight for stats in candidate_stats]
        low = min((weight for weight in weights if math.isfinite(weight)), default=0.0)
        weights = [weight if math.isfinite(weight) else low for weight in weights]
        if self.operator in _PARETO:
            columns = [
                _filled([stats.objectives.get(name) for stats in candidate_stats])
                for name in self.objectives
            ]
            return list(zip(weights, *columns, strict=True))
        if self.operator.endswith("lexicase"):
            return _by_question(candidate_stats, weights)
        shift = min(low, 0.0) if self.operator in _PROPORTIONAL else 0.0
        return [(weight - shift,) for weight in weights]


def _filled(values: Sequence[float | None]) -> list[float]:
    """``values`` with the mean of the finite ones in the place of the others."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    mean = fmean(known) if known else 0.0
    return [value if value is not None and math.isfinite(value) else mean for value in values]


def _by_question(
    candidate_stats: Sequence[CandidateStats], weights: Sequence[float]
) -> list[tuple[float, ...]]:
    """The mean rewards of each candidate, question by question.

    One it has not met counts as its weight: neither won nor lost.
    """
    questions = sorted({question for s in candidate_stats for question in s.by_question})
    rows: list[tuple[float, ...]] = []
    for stats, weight in zip(candidate_stats, weights, strict=True):
        found = [stats.by_question.get(question, weight) for question in questions]
        rows.append(tuple(r if math.isfinite(r) else weight for r in found) or (weight,))
    return rows
