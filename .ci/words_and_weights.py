"""Draws pictures of results: docs/images/words-and-weights.svg and docs/images/dose.svg.

    python .ci/words_and_weights.py

Every number is computed again from the recorded answers, as evoprompt replay does.
tests/test_picture.py fails when a picture is not that of the answers.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evoprompt.experiments.replayed import PageResults

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
Draw = Callable[[Axes, PageResults], None]
SHOPS = (35, 36, 37, 38, 39)
ARMS = {
    "as it is": ("untrained under usual", "#dddddd"),
    "weights alone": ("static under usual", "#999999"),
    "weights, a writer\nwho sees scores": ("blind under blind", "#9ecae1"),
    "weights, a writer\nwho reads failures": ("coevolve under coevolve", "#1f77b4"),
    "words alone": ("untrained under words", "#fdae6b"),
    "words, then weights": ("before under words", "#e6550d"),
}
"""Cell of each arm, and its colour."""
DOSES = {
    "none": "static",
    "1": "1 generation",
    "2": "2 generations",
    "4": "4 generations",
    "11": "11 generations",
    "default": "coevolve",
}
"""Arm of each number of generations."""


def draw_arms(axes: Axes, results: PageResults) -> None:
    """Draw a bar for each arm of SQL by house rules, and a dot for each shop."""
    for at, (arm, colour) in enumerate(reversed(ARMS.values())):
        cells = [name for shop in SHOPS if (name := f"GPU {shop}, {arm}") in results.cells]
        shares = [results.row(name).mean for name in cells]
        axes.barh(at, fmean(shares), height=0.8, color=colour)
        axes.plot(shares, [at] * len(shares), "o", color="#333333", markersize=4)
        axes.text(max(shares) + 0.02, at, f"{fmean(shares):.0%}", va="center")
    axes.set_yticks(range(len(ARMS)), reversed(ARMS))
    axes.set(xlim=(0, 1.1), xticks=(0, 0.5, 1), xticklabels=("0", "half", "all"))
    title = "test questions solved, weights after 1,200 rollouts (a dot is a shop)"
    axes.set_title(title, loc="left", fontsize=11)


def draw_doses(axes: Axes, results: PageResults) -> None:
    """Draw a dot for each seed of the tiny calculator by its generations, and their mean."""
    rows = [results.row(f"five seeds, {arm}") for arm in DOSES.values()]
    axes.plot(range(len(rows)), [row.mean for row in rows], color="#1f77b4", label="mean")
    for at, row in enumerate(rows):
        # Seeds that end equal would hide each other.
        places = [at + 0.04 * (seed - 2) for seed in range(len(row.seeds))]
        axes.plot(places, row.seeds, "o", color="#333333", markersize=4)
    axes.set_xticks(range(len(DOSES)), DOSES)
    axes.set(ylim=(0, 1), yticks=(0, 0.5, 1), yticklabels=("0", "half", "all"))
    axes.set_xlabel("generations of texts in 4,800 rollouts")
    title = "test questions solved (a dot is a seed, the line their mean)"
    axes.set_title(title, loc="left", fontsize=11)


PICTURES: Mapping[str, tuple[Draw, str]] = {
    "words-and-weights": (draw_arms, "sql"),
    "dose": (draw_doses, "calculator"),
}
"""Drawing, and example with its answers, of each picture."""


def draw(name: str) -> str:
    """Return a picture as SVG; the same answers give the same text."""
    draw_axes, example = PICTURES[name]
    with mpl.rc_context({"svg.hashsalt": "evoprompt", "font.size": 11}):
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        axes = figure.subplots()
        draw_axes(axes, PageResults(ROOT / "examples" / example / "results"))
        axes.spines[["top", "right"]].set_visible(False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


if __name__ == "__main__":
    for name in PICTURES:
        (IMAGES / f"{name}.svg").write_text(draw(name), encoding="utf-8")
