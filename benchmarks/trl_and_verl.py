"""The same arms under two trainers in one picture: validation exact match over rollouts.

    python benchmarks/trl_and_verl.py runs/tiny runs/tiny-verl docs/images/trl-and-verl.png

A panel an arm; the line is the mean of the seeds, the band reaches from the lowest to the highest.
Also prints the numbers: the mean and the range of each trainer where both were evaluated, and the
test exact match of every seed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
import numpy as np

from evoprompt.experiments.summary import ArmSummary, Summary

_COLORS = ("#1f5f99", "#d1590c")
_LINES = ((0, (5, 2)), "-")
_PRINTED = 5


def band(arm: ArmSummary, points: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Rollouts, and exact match by seed and rollouts, where every seed has values."""
    curves = [seed.curve for seed in arm.seeds]
    end = min(curve[-1][0] for curve in curves)
    xs = np.linspace(0, end, points)
    ys = [np.interp(xs, [x for x, _ in curve], [y for _, y in curve]) for curve in curves]
    return xs, np.array(ys)


def draw(runs: Mapping[str, Mapping[str, ArmSummary]], arms: Sequence[str], output: Path) -> None:
    """Draws one panel an arm with a curve a trainer."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context({"axes.spines.right": False, "axes.spines.top": False}):
        figure, panels = plt.subplots(
            1, len(arms), figsize=(5 * len(arms), 3.8), sharey=True, squeeze=False
        )
        for axes, arm in zip(panels[0], arms, strict=True):
            for (trainer, found), color, line in zip(runs.items(), _COLORS, _LINES, strict=True):
                xs, ys = band(found[arm])
                seeds = f"{trainer}, {len(ys)} seeds"
                axes.fill_between(xs, ys.min(0), ys.max(0), color=color, alpha=0.18, linewidth=0)
                axes.plot(xs, ys.mean(0), color=color, linestyle=line, linewidth=2, label=seeds)
            axes.set(title=arm, ylabel="validation exact match")
            axes.set_xlabel("rollouts, verification included")
            axes.set_ylim(0, 1)
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.legend(loc="upper left")
        figure.tight_layout()
        figure.savefig(output, dpi=130, metadata={"Software": None})


def tell(runs: Mapping[str, Mapping[str, ArmSummary]], arms: Sequence[str]) -> None:
    """Prints the numbers behind the picture as markdown."""
    for arm in arms:
        bands = {trainer: band(found[arm]) for trainer, found in runs.items()}
        end = min(xs[-1] for xs, _ in bands.values())
        places = np.linspace(0, end, _PRINTED + 1)[1:]
        print(f"\n### {arm}\n")
        print("| trainer | " + " | ".join(f"at {place:,.0f}" for place in places) + " | test |")
        print("|" + "---|" * (len(places) + 2))
        for trainer, (xs, ys) in bands.items():
            at = [np.array([np.interp(place, xs, y) for y in ys]) for place in places]
            cells = [f"{v.mean():.2f} ({v.min():.2f} to {v.max():.2f})" for v in at]
            tested = [seed.test.value for seed in runs[trainer][arm].seeds]
            cells.append(f"{fmean(tested):.3f} ({min(tested):.3f} to {max(tested):.3f})")
            print(f"| {trainer} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    trl, verl, picture = map(Path, sys.argv[1:])
    both = {
        name: Summary.read(run / "summary.json").arms
        for name, run in (("TRL", trl), ("veRL", verl))
    }
    shared = [arm for arm in both["TRL"] if arm in both["veRL"]]
    draw(both, shared, picture)
    tell(both, shared)
