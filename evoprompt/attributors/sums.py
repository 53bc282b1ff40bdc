"""Means that attributors keep for each candidate."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_QUESTIONS = 256  # per candidate; enough for case-by-case selection, bounded in memory


@dataclass(slots=True)
class Sum:
    """A sum of ``count`` values."""

    total: float = 0.0
    count: int = 0

    def add(self, values: Sequence[float]) -> None:
        """Adds ``values``, in any order."""
        # Rollouts of a group finish in any order, which the last digits must not depend on.
        self.total = math.fsum((self.total, *values))
        self.count += len(values)

    @property
    def mean(self) -> float:
        """The mean; there must be a value."""
        return self.total / self.count


def without_rounding(weight: float) -> float:
    """``weight`` to 12 digits: who earned the same must not be ranked by errors of rounding."""
    return float(f"{weight:.12g}")


def meet(questions: OrderedDict[str, Sum], question: str) -> Sum:
    """The sum of a question, which is now the last one met; the longest unmet makes room."""
    found = questions.setdefault(question, Sum())
    questions.move_to_end(question)
    if len(questions) > _MOST_QUESTIONS:
        questions.popitem(last=False)
    return found
