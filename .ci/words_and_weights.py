"""Draws docs/images/words-and-weights.svg from the rows of the house-rules page.

    python .ci/words_and_weights.py

Every number is computed again from the recorded answers, as evoprompt replay does.
tests/test_picture.py fails when the picture is not that of the answers.
"""

from __future__ import annotations

import io
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from matplotlib.figure import Figure

from evoprompt.experiments.replayed import PageResults

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/images/words-and-weights.svg"
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


def draw(results: PageResults) -> str:
    """The picture as SVG; the same answers give the same text."""
    with mpl.rc_context({"svg.hashsalt": "evoprompt", "font.size": 11}):
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        axes = figure.subplots()
        for at, (arm, colour) in enumerate(reversed(ARMS.values())):
            cells = [name for shop in SHOPS if (name := f"GPU {shop}, {arm}") in results.cells]
            found = [results.row(name).mean for name in cells]
            axes.barh(at, fmean(found), height=0.8, color=colour)
            axes.plot(found, [at] * len(found), "o", color="#333333", markersize=4)
            axes.text(max(found) + 0.02, at, f"{fmean(found):.0%}", va="center")
        axes.set_yticks(range(len(ARMS)), reversed(ARMS))
        axes.set(xlim=(0, 1.1), xticks=(0, 0.5, 1), xticklabels=("0", "half", "all"))
        axes.set_title(
            "test questions solved, weights after 1,200 rollouts (a dot is a shop)",
            loc="left",
            fontsize=11,
        )
        axes.spines[["top", "right"]].set_visible(False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


if __name__ == "__main__":
    PICTURE.write_text(draw(PageResults(ROOT / "examples/sql/results")), encoding="utf-8")
