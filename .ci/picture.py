"""Draws the README's picture from runs of examples/search_qa/tiny.yaml.

    python .ci/picture.py RUN...    # writes docs/images/tiny.json and .svg
    python .ci/picture.py           # draws docs/images/tiny.json again

The first run has the arm *coevolve*. Runs of *static* with fewer rollouts than the example are the
second half of *words first, then weights*, whose words took the other rollouts.

tests/test_picture.py fails when the picture is not that of the file, or when the run's settings are
no longer those that somebody gets who runs the example today.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from evoprompt.experiments.config import load

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples/search_qa/tiny.yaml"
NUMBERS = ROOT / "docs/images/tiny.json"
WORDS_FIRST = "words-first"
COLOURS = {"static": "#777777", WORDS_FIRST: "#d95f02", "coevolve": "#1f77b4"}  # as in the report
LINES = {"static": "--", WORDS_FIRST: ":", "coevolve": "-"}
NAMES = {
    "static": "fixed instruction",
    WORDS_FIRST: "words first (4,000), then weights",
    "coevolve": "evolving instruction",
}


def settings(config: Path) -> Mapping[str, Any]:
    """What decides how the example goes, paths of the machine apart."""
    resolved = load(config).resolved()
    return {name: resolved[name] for name in ("task", "budget", "evaluate_every")} | {
        "engine": resolved["arms"]["coevolve"]["engine"],
        "learning_rate": resolved["host"]["learning_rate"],
    }


def read(runs: Sequence[Path]) -> dict[str, Any]:
    """The numbers and texts of runs, as JSON values."""
    decided = settings(runs[0] / "config.yaml")
    trials: dict[str, list[Any]] = {name: [] for name in NAMES}
    curves: dict[str, list[Any]] = {name: [] for name in NAMES}
    for run in runs:
        before = decided["budget"] - load(run / "config.yaml").resolved()["budget"]
        arms = json.loads((run / "summary.json").read_text(encoding="utf-8"))["arms"]
        for arm, summary in arms.items():
            name = WORDS_FIRST if before else arm
            trials[name] += summary["seeds"]
            for trial in summary["seeds"]:
                curves[name].append([[before + at, solved] for at, solved in trial["curve"]])
    (first,) = trials["static"][0]["best"].values()
    (last,) = trials["coevolve"][0]["best"].values()
    return {
        "settings": decided,
        "curves": curves,
        "test": {name: mean(trial["test"]["value"] for trial in trials[name]) for name in NAMES},
        "before": first,
        "after": last,
    }


def draw(numbers: Mapping[str, Any]) -> str:
    """The picture as SVG; the same numbers give the same text."""
    with mpl.rc_context({"svg.hashsalt": "evoprompt", "font.size": 11}):
        figure = Figure(figsize=(12, 4), layout="constrained")
        curves, texts = figure.subplots(1, 2, width_ratios=(3, 2))
        for name, label in NAMES.items():
            shown = f"{label}: {numbers['test'][name]:.0%} of the test questions"
            style = {"color": COLOURS[name], "linestyle": LINES[name], "linewidth": 1.8}
            for seed, curve in enumerate(numbers["curves"][name]):
                rollouts, right = zip(*curve, strict=True)
                curves.plot(rollouts, right, label="" if seed else shown, **style)
        curves.set(xlabel="rollouts, verification included", ylim=(0, 1.02), xlim=(0, None))
        count = len(numbers["curves"]["static"])
        title = f"share of validation questions answered, a line for each of {count} seeds"
        curves.set_title(title, loc="left", fontsize=11)
        curves.spines[["top", "right"]].set_visible(False)
        curves.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.05))
        texts.set_axis_off()
        before, after = (fill(numbers[name], 58) for name in ("before", "after"))
        place = {"transform": texts.transAxes, "va": "top", "fontsize": 10.5}
        texts.text(0, 1, "before", color=COLOURS["static"], weight="bold", **place)
        texts.text(0, 0.93, before, color="#333333", **place)
        below = 0.93 - 0.06 * (before.count("\n") + 2)
        texts.text(0, below, "after, first seed", color=COLOURS["coevolve"], weight="bold", **place)
        texts.text(0, below - 0.07, after, color="#333333", **place)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


def main() -> None:
    """Writes the picture, and first its numbers where runs are given."""
    if runs := [Path(run) for run in sys.argv[1:]]:
        NUMBERS.write_text(json.dumps(read(runs), indent=1) + "\n", encoding="utf-8")
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    NUMBERS.with_suffix(".svg").write_text(draw(numbers), encoding="utf-8")


if __name__ == "__main__":
    main()
