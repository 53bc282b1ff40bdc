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
    "words alone": "#fdae6b",
    "words with weights": "#1f77b4",
    "those words, weights as they were": "#9ecae1",
}
FIRST = "untrained under usual"
BOTH = ("coevolve under coevolve", "untrained under coevolve")
SHOPS = {
    34: (
        FIRST,
        "static at .00005 under usual",
        "",  # it had no search of its own
        "weights after words under coevolve",
        "untrained under coevolve",
    ),
    35: (FIRST, "static under usual", "untrained under words", *BOTH),
    36: (FIRST, "static under usual", "untrained under words", *BOTH),
}
"""Cells of each shop, in the order of the arms."""


def draw(results: Results) -> str:
    """The picture as SVG; the same answers give the same text."""
    with mpl.rc_context({"svg.hashsalt": "evoprompt", "font.size": 11}):
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        axes = figure.subplots()
        at, ticks = 0, []
        for shop, arms in SHOPS.items():
            shown = [(arm, colour) for arm, colour in zip(arms, ARMS.values(), strict=True) if arm]
            ticks.append(at + (len(shown) - 1) / 2)
            for arm, colour in shown:
                row = results.row(f"shop {shop}, {arm}")
                bar = {"color": colour, "yerr": row.half, "ecolor": "#333333", "capsize": 3}
                axes.bar(at, row.mean, width=0.9, **bar)
                axes.text(at, row.mean + row.half + 0.02, f"{row.mean:.0%}", ha="center")
                at += 1
            at += 1
        axes.set_xticks(ticks)
        axes.set_xticklabels([f"shop {shop}" for shop in SHOPS])
        axes.set(ylim=(0, 1.5), yticks=(0, 0.5, 1), yticklabels=("0", "half", "all"))
        axes.set_title("test questions solved", loc="left", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        handles = [mpl.patches.Patch(color=colour, label=said) for said, colour in ARMS.items()]
        axes.legend(handles=handles, frameon=False, loc="upper left", ncols=2)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


if __name__ == "__main__":
    PICTURE.write_text(draw(Results(ROOT / "examples/sql/results")), encoding="utf-8")
