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
TEXTS = {"usual": "the first text", "coevolve": "the text that evolved"}
POLICIES = {
    "untrained": ("weights as they were", "#bbbbbb"),
    "static": ("trained under the first text", "#777777"),
    "static at .00005": ("the same, at a sixth of the learning rate", "#333333"),
    "coevolve": ("trained while the text evolved", "#1f77b4"),
}


def draw(results: Results) -> str:
    """The picture as SVG; the same answers give the same text."""
    with mpl.rc_context({"svg.hashsalt": "evoprompt", "font.size": 11}):
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        axes = figure.subplots()
        place, ticks = 0.0, {}
        for text, said in TEXTS.items():
            start = place
            for policy, (_, colour) in POLICIES.items():
                name = f"shop 34, {policy} under {text}"
                if name not in results.rows:
                    continue
                row = results.row(name)
                bar = {"color": colour, "yerr": row.half, "ecolor": "#333333", "capsize": 3}
                axes.bar(place, row.mean, width=0.9, **bar)
                axes.text(place, row.mean + row.half + 0.02, f"{row.mean:.0%}", ha="center")
                place += 1
            ticks[(start + place - 1) / 2] = said
            place += 0.6
        axes.set_xticks([*ticks], [*ticks.values()])
        axes.set(ylim=(0, 1.05), yticks=(0, 0.5, 1), yticklabels=("0", "half", "all"))
        axes.set_title("test questions solved", loc="left", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        handles = [
            mpl.patches.Patch(color=colour, label=said) for said, colour in POLICIES.values()
        ]
        axes.legend(handles=handles, frameon=False, loc="upper left")
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


if __name__ == "__main__":
    PICTURE.write_text(draw(Results(ROOT / "examples/sql/results")), encoding="utf-8")
