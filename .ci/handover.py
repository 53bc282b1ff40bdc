"""Draws docs/images/handover.svg: what each sentence is worth to the policies of a training.

    python .ci/handover.py runs/coevolve   # a run with keep_policies; writes the numbers, too
    python .ci/handover.py                 # draws docs/images/handover.json again

The value of a sentence is the share of validation questions that a policy solves under the last
text of its training, less the share under this text without the sentence, greedy.
tests/test_picture.py fails when the picture is not that of the numbers.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from evoprompt.experiments.checkpoints import SavedPolicy
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.evaluate import Subject, rewards_of, task_of
from evoprompt.proposers.sentences import SentenceRandom
from evoprompt.types import Candidate

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = ROOT / "docs/images/handover.json"
COLOURS = {"still needed": "#1f77b4", "learned": "#2ca02c", "harmful now": "#d62728", "": "#555555"}


def measure(run: Path) -> list[dict[str, Any]]:
    """Return text, checkpoints and values of the sentences of each seed."""
    directory = RunDirectory.open(run)
    trials = [TrialId("coevolve", seed) for seed in directory.config.seeds]
    return [measure_trial(directory, trial) for trial in trials]


def measure_trial(directory: RunDirectory, trial: TrialId) -> dict[str, Any]:
    """Return text, checkpoints and values of the sentences of one seed."""
    folder = directory.trial(trial).policies
    records = sorted(folder.glob("*/kept.json"), key=lambda file: int(file.parent.name))
    last = SavedPolicy.model_validate_json(records[-1].read_text(encoding="utf-8"))
    text = Candidate.of(last.best).text
    numbers: dict[str, Any] = {"seed": trial.seed, "text": text, "checkpoints": {}}
    for file in records:
        subject = Subject(directory.config, trial, file.parent, text)
        task = task_of(subject)
        bank = task.bank
        assert bank is not None
        editor = SentenceRandom(bank)
        sentences = editor.split_sentences(Candidate.of(text))
        questions = task.questions("validation")
        with rewards_of(subject, task, "validation") as rewards:
            whole = [reward or 0.0 for reward in rewards(text, questions)]
            values = {}
            for sentence in sentences:
                shorter = editor.join_sentences([kept for kept in sentences if kept != sentence])
                pairs = zip(whole, rewards(shorter, questions), strict=True)
                gains = [with_it - (without or 0.0) for with_it, without in pairs]
                stderr = stdev(gains) / math.sqrt(len(gains))
                values[sentence] = (round(fmean(gains), 4), round(stderr, 4))
        numbers["checkpoints"][file.parent.name] = {"solved": fmean(whole), "values": values}
        print(trial.seed, file.parent.name, fmean(whole), values, flush=True)
    return numbers


def kind_of(values: Sequence[tuple[float, float]]) -> str:
    """Return what became of a sentence, where two standard errors show it."""
    value, stderr = values[-1]
    if value > 2 * stderr:
        return "still needed"
    if -value > 2 * stderr:
        return "harmful now"
    return "learned" if any(earlier > 2 * error for earlier, error in values[:-1]) else ""


def draw(seeds: Sequence[Mapping[str, Any]]) -> str:
    """Return the picture as SVG; the same numbers give the same text."""
    with mpl.rc_context({"svg.hashsalt": "evoprompt", "font.size": 9}):
        heights = [len(next(iter(seed["checkpoints"].values()))["values"]) + 1.6 for seed in seeds]
        figure = Figure(figsize=(9, 0.24 * sum(heights) + 0.5), layout="constrained")
        panels = figure.subplots(len(seeds), 1, height_ratios=heights, squeeze=False)[:, 0]
        for axes, seed in zip(panels, seeds, strict=True):
            points = seed["checkpoints"]
            sentences = list(next(iter(points.values()))["values"])
            table = [[points[at]["values"][name] for at in points] for name in sentences]
            axes.imshow(
                [[value for value, _ in row] for row in table],
                cmap="RdBu",
                vmin=-0.6,
                vmax=0.6,
                aspect="auto",
            )
            for place, row in enumerate(table):
                for column, (value, stderr) in enumerate(row):
                    weight = "bold" if abs(value) > 2 * stderr else "normal"
                    colour = "white" if abs(value) > 0.35 else "black"
                    style = {"ha": "center", "va": "center", "color": colour, "weight": weight}
                    axes.text(column, place, f"{value:+.2f}", **style)
                kind = kind_of(row)
                axes.text(len(points) - 0.4, place, kind, va="center", color=COLOURS[kind])
            axes.set_yticks(range(len(sentences)), sentences)
            solved = [f"{int(at):,}\n({points[at]['solved']:.2f})" for at in points]
            axes.set_xticks(range(len(points)), solved)
            axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
            axes.set_title(f"seed {seed['seed']}", loc="left", fontsize=9, weight="bold")
            axes.spines[:].set_visible(False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


def main() -> None:
    """Write the picture, and first its numbers where runs are given."""
    if runs := sys.argv[1:]:
        measured = [seed for run in runs for seed in measure(Path(run))]
        NUMBERS.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    NUMBERS.with_suffix(".svg").write_text(draw(numbers), encoding="utf-8")


if __name__ == "__main__":
    main()
