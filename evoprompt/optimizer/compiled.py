"""What an optimization of a DSPy program found, in the terms of ``dspy.GEPA``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evoprompt.optimizer.genome import Genome
from evoprompt.optimizer.result import OptimizationResult


@dataclass(frozen=True, slots=True)
class CoEvolveResult:
    """``program.detailed_results`` after a compilation with ``track_stats=True``.

    Attributes:
        result: all that is known, the curve and the events among it.
        usage: tokens of the program's language models, by model and kind, as DSPy counts them;
            empty where ``dspy.settings.track_usage`` is on, as they are then with the predictions.
        genome: makes programs of texts.
    """

    result: OptimizationResult
    usage: Mapping[str, Mapping[str, Any]]
    genome: Genome

    @property
    def candidates(self) -> Sequence[Mapping[str, str]]:
        """The texts of everybody who was tried, in order of birth."""
        return [one.candidate.components for one in self.result.candidates]

    @property
    def parents(self) -> Sequence[Sequence[int]]:
        """For each candidate the indices of its parents."""
        index = {one.candidate.id: place for place, one in enumerate(self.result.candidates)}
        return [
            [index[name] for name in one.candidate.parents if name in index]
            for one in self.result.candidates
        ]

    @property
    def val_aggregate_scores(self) -> Sequence[float]:
        """For each candidate its mean score on the validation examples that it was asked."""
        return [one.weight for one in self.result.candidates]

    @property
    def best_idx(self) -> int:
        """The candidate that was returned."""
        names = [one.candidate.id for one in self.result.candidates]
        return names.index(self.result.best.id)

    @property
    def total_metric_calls(self) -> int:
        """Rollouts, each of which the metric has scored."""
        return self.result.rollouts

    def program(self, index: int) -> Any:
        """The program of a candidate."""
        return self.genome.build(self.candidates[index])
