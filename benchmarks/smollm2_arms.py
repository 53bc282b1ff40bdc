"""Runs of a real model, arm by arm, in one picture and as tables.

    python benchmarks/smollm2_arms.py docs/images/smollm2.png Reading=runs/reading Tool=runs/tool

A panel a run, a row an arm, a dot a seed, a tick for the mean of the seeds. Rollouts and seconds of
an arm that goes on from another one are its own alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev

import matplotlib as mpl

from evoprompt.experiments.summary import ArmSummary, Summary

_COLOR, _EVOLVING = "#1f5f99", "#d1590c"
_HEIGHT = 0.36  # inches a row


def draw(runs: Mapping[str, Summary], output: Path) -> None:
    """Draws the result of every seed on the test questions."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = max(len(run.arms) for run in runs.values())
    with mpl.rc_context({"axes.spines.right": False, "axes.spines.top": False}):
        figure, panels = plt.subplots(
            1, len(runs), figsize=(5 * len(runs), 1.4 + _HEIGHT * rows), squeeze=False
        )
        for axes, (name, run) in zip(panels[0], runs.items(), strict=True):
            for row, (arm, found) in enumerate(run.arms.items()):
                tested = [seed.test.value for seed in found.seeds]
                color = _EVOLVING if arm == "coevolve" else _COLOR
                axes.plot(tested, [row] * len(tested), "o", color=color, alpha=0.55, markersize=7)
                axes.plot(
                    [fmean(tested)], [row], "|", color=color, markersize=18, markeredgewidth=2
                )
            axes.set_yticks(range(len(run.arms)), list(run.arms))
            axes.set_ylim(len(run.arms) - 0.4, -0.6)
            axes.set_xlim(left=0)
            label = next(found.seeds[0].headline.label for found in run.arms.values())
            axes.set(title=name, xlabel=f"{label}, test questions")
        figure.tight_layout()
        figure.savefig(output, dpi=130, metadata={"Software": None})


def row(arm: str, found: ArmSummary) -> str:
    """An arm as a line of a table: the seeds, their mean and spread, and what they cost."""
    tested = [seed.test.value for seed in found.seeds]
    spread = f" ± {stdev(tested):.3f}" if len(tested) > 1 else ""
    cost = [seed.train_seconds + seed.engine_seconds for seed in found.seeds]
    verify = fmean(seed.verify_seconds for seed in found.seeds)
    cells = [
        f"*{arm}*",
        ", ".join(f"{value:.3f}" for value in tested),
        f"{fmean(tested):.3f}{spread}",
        f"{fmean(seed.rollouts for seed in found.seeds):.0f}",
        f"{fmean(cost):.0f} ({verify:.0f})",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    picture, *named = sys.argv[1:]
    found = {
        name: Summary.read(Path(folder) / "summary.json")
        for name, _, folder in (one.partition("=") for one in named)
    }
    draw(found, Path(picture))
    for name, run in found.items():
        print(f"\n### {name}\n")
        print("| arm | each seed | mean ± s.d. | rollouts | seconds (verification) |")
        print("|---|---|---|---|---|")
        print("\n".join(row(arm, one) for arm, one in run.arms.items()))
