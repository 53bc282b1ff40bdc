"""An engine in numbers, for a trainer's own reporters."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from evoprompt.roles import Delegates, SupportsMetrics

if TYPE_CHECKING:
    from evoprompt.engine import Engine


def measure(engine: Engine) -> dict[str, float]:
    """Finite numbers about population, rollouts, generations and proposer, by name."""
    candidate_stats = engine.candidate_stats()
    weights = [stats.weight for stats in candidate_stats]
    found = {
        "population_size": float(len(candidate_stats)),
        "best_weight": max(weights),
        "mean_weight": fmean(weights),
        "best_instruction_words": float(len(engine.selection.announced.text.split())),
        "training_rollouts": float(engine.training_rollouts),
        "verification_rollouts": float(engine.verification_rollouts),
        "candidates_born": float(engine.screening.born),
        "on_probation": float(len(engine.probation.ids)),
        **engine.evolution.tally.metrics(),
    }
    if chances := engine.selection.chances(candidate_stats):
        found["selection_entropy"] = -math.fsum(p * math.log(p) for p in chances if p > 0)
    reporter = engine.proposer
    if isinstance(reporter, Delegates):
        found["proposer_failures"] += engine.side_calls.ask(
            "failures_caught", reporter.failures_caught, 0
        )
    if isinstance(reporter, SupportsMetrics):
        none: dict[str, float] = {}
        numbers = engine.side_calls.ask("metrics", lambda: dict(reporter.metrics()), none)
        found |= {f"proposer/{name}": value for name, value in numbers.items()}
    return found
