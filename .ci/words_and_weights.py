"""Draws docs/images/words-and-weights.svg from the rows of the house-rules page.

    python .ci/words_and_weights.py

Every number is computed again from the recorded answers, as evoprompt replay does.
tests/test_picture.py fails when the picture is not that of the answers.
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from evoprompt.experiments.replayed import Results

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/images/words-and-weights.svg"
ARMS = {
    "as it is": "#dddddd",
    "weights alone": "#999999",
    "words alone": "#9ecae1",
    "words and weights": "#1f77b4",
}
FIRST = "untrained under usual"
SHOPS = {
    34: (
        FIRST,
        "static at .00005 under usual",
        "untrained under coevolve",
        "weights after words under coevolve",
    ),
    35: (FIRST, "static under usual", "untrained under words", "coevolve under coevolve"),
    36: (FIRST, "static under usual", "untrained under words", "coevolve under coevolve"),
}
"""Cells of each shop, in the order of the arms."""


def draw(results: Results) -> str:
    """The picture as SVG; the same answers give the same text."""
    with mpl.rc_context({"svg.hashsalt": "evoprompt", "font.size": 11}):
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        axes = figure.subplots()
        for group, (shop, arms) in enumerate(SHOPS.items()):
            for place, (arm, colour) in enumerate(zip(arms, ARMS.values(), strict=True)):
                row = results.row(f"shop {shop}, {arm}")
                at = 5 * group + place
                bar = {"color": colour, "yerr": row.half, "ecolor": "#333333", "capsize": 3}
                axes.bar(at, row.mean, width=0.9, **bar)
                axes.text(at, row.mean + row.half + 0.02, f"{row.mean:.0%}", ha="center")
        axes.set_xticks([5 * group + 1.5 for group in range(len(SHOPS))])
        axes.set_xticklabels([f"shop {shop}" for shop in SHOPS])
        axes.set(ylim=(0, 1.3), yticks=(0, 0.5, 1), yticklabels=("0", "half", "all"))
        axes.set_title("test questions solved", loc="left", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        handles = [mpl.patches.Patch(color=colour, label=said) for said, colour in ARMS.items()]
        axes.legend(handles=handles, frameon=False, loc="upper left", ncols=4)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


if __name__ == "__main__":
    PICTURE.write_text(draw(Results(ROOT / "examples/sql/results")), encoding="utf-8")
