"""Arms of the tiny world held against one of them, seed by seed, with exact permutation tests.

    python benchmarks/tiny_controls.py coevolve runs/tiny runs/ablations

The first argument is the arm that the others are held against; it is taken from the first run that
has it. A test asks how often a random division of the seeds of both arms into two groups would give
mean ranks as far apart or farther; all divisions are counted. A seed that did not reach 0.8 comes
after all that did. Holm's correction is over the arms, for each of the two outcomes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

from scipy.stats import rankdata

from evoprompt.experiments.summary import ArmSummary, SeedSummary, Summary


def rollouts(seed: SeedSummary) -> float:
    """Rollouts to the target; infinite if it was not reached."""
    return math.inf if seed.rollouts_to_target is None else seed.rollouts_to_target


def exact_match(seed: SeedSummary) -> float:
    """Of the test."""
    return seed.test.value


def permutation_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Exact, two-sided p-value of the difference of mean ranks.

    >>> round(permutation_test([1, 2, 3], [4, 5, 6]), 3)  # 2 of the 20 divisions
    0.1
    """
    ranks = rankdata([*first, *second])
    middle = len(first) * fmean(ranks)
    observed = abs(sum(ranks[: len(first)]) - middle)
    divisions = [sum(chosen) for chosen in combinations(ranks, len(first))]
    return fmean(abs(total - middle) >= observed - 1e-9 for total in divisions)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P-values corrected for being several.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    corrected, highest = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = highest
    return corrected


def main(against: str, *runs: str) -> None:
    """Print the table."""
    arms: dict[str, ArmSummary] = {}
    for run in runs:
        arms = {**Summary.read(Path(run) / "summary.json").arms, **arms}
    base = arms.pop(against)

    def tests(outcome: Callable[[SeedSummary], float]) -> tuple[dict[str, float], dict[str, float]]:
        wanted = list(map(outcome, base.seeds))
        p = {
            name: permutation_test(wanted, list(map(outcome, arm.seeds)))
            for name, arm in arms.items()
        }
        return p, holm(p)

    speed, match = tests(rollouts), tests(exact_match)
    print("| arm | rollouts to 0.8, by seed | median | p | Holm | test EM | mean | p | Holm |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, arm in {against: base, **arms}.items():
        reached, tested = list(map(rollouts, arm.seeds)), list(map(exact_match, arm.seeds))
        cells = [
            name,
            ", ".join(_count(value) for value in reached),
            _count(median(reached)),
            *(_p(found.get(name)) for found in speed),
            ", ".join(f"{value:.3f}" for value in tested),
            f"{fmean(tested):.3f}",
            *(_p(found.get(name)) for found in match),
        ]
        print("| " + " | ".join(cells) + " |")


def _count(value: float) -> str:
    return "-" if math.isinf(value) else f"{value:,.0f}"


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
