"""Tables of finished runs, as markdown: test exact match with 95 % intervals over seeds.

    python benchmarks/tiny_tables.py runs/tiny runs/long runs/sweep runs/ablations

One table a run. The intervals are Student's, over the seeds of an arm; with few seeds they are
wide, as they should be. The rollouts to the run's target count verification rollouts too and are
read at the evaluation points, on validation questions.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, stdev

from scipy.stats import t

from evoprompt.experiments.summary import ArmSummary, Summary


def interval(values: Sequence[float]) -> str:
    """Mean and half-width of the 95 % interval."""
    if len(values) < 2:
        return f"{values[0]:.3f}"
    half = t.ppf(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return f"{fmean(values):.3f} ± {half:.3f}"


def reached(arm: ArmSummary) -> str:
    """Median rollouts to the target over the seeds that got there, and how many did."""
    found = [s.rollouts_to_target for s in arm.seeds if s.rollouts_to_target is not None]
    share = f"{len(found)} of {len(arm.seeds)}"
    return f"{median(found):,.0f} ({share})" if found else f"not reached ({share})"


def row(name: str, arm: ArmSummary) -> str:
    """One arm as a line of a markdown table."""
    hops = sorted(arm.seeds[0].test.by_stratum)
    cells = [
        name,
        interval([seed.test.value for seed in arm.seeds]),
        *(f"{fmean(seed.test.by_stratum[hop] for seed in arm.seeds):.3f}" for hop in hops),
        f"{fmean(seed.test.metrics['tool_calls'] for seed in arm.seeds):.2f}",
        reached(arm),
        f"{fmean(seed.rollouts for seed in arm.seeds):,.0f}",
        f"{fmean(seed.train_seconds for seed in arm.seeds):.0f}",
        f"{fmean(seed.engine_seconds for seed in arm.seeds):.2f}",
        str(len(arm.seeds)),
    ]
    return "| " + " | ".join(cells) + " |"


def table(run: Path) -> str:
    """All arms of ``run`` as a markdown table."""
    summary = Summary.read(run / "summary.json")
    arms = summary.arms
    hops = sorted(next(iter(arms.values())).seeds[0].test.by_stratum)
    head = [
        "arm",
        "test EM",
        *(f"{hop}-hop" for hop in hops),
        "tool calls",
        f"rollouts to {summary.target}",
        "rollouts",
        "train s",
        "engine s",
        "seeds",
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + [row(name, arm) for name, arm in arms.items()])


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(f"### {Path(path).name}\n\n{table(Path(path))}\n")
