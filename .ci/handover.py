"""Draws docs/images/handover.svg: the value of each sentence to the policies of a training.

    python .ci/handover.py runs/handover   # a run with keep_policies; writes the numbers, too
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
COLOURS = {
    "still needed": "#1f77b4",
    "no longer needed": "#2ca02c",
    "harmful now": "#d62728",
    "": "#555555",
}


def measure(directory: RunDirectory, trial: TrialId) -> dict[str, Any]:
    """Return the values of the sentences of a trial's last text at each policy that it saved."""
    records = directory.trial(trial).policies.glob("*/kept.json")
    folders = sorted((record.parent for record in records), key=lambda folder: int(folder.name))
    last = (folders[-1] / "kept.json").read_text(encoding="utf-8")
    text = Candidate.of(SavedPolicy.model_validate_json(last).best).text
    policies = {}
    for folder in folders:
        policies[folder.name] = values_of(Subject(directory.config, trial, folder, text), text)
        print(trial, folder.name, policies[folder.name], flush=True)
    return {"seed": trial.seed, "text": text, "policies": policies}


def values_of(subject: Subject, text: str) -> dict[str, Any]:
    """Return the share that a policy solves under ``text``, and the value of each sentence."""
    task = task_of(subject)
    assert task.bank is not None
    editor, questions = SentenceRandom(task.bank), task.questions("validation")
    sentences, values = editor.split_sentences(Candidate.of(text)), {}
    with rewards_of(subject, task, "validation") as rewards:
        whole = [reward or 0.0 for reward in rewards(text, questions)]
        for sentence in sentences:
            shorter = editor.join_sentences([other for other in sentences if other != sentence])
            without = [reward or 0.0 for reward in rewards(shorter, questions)]
            gains = [reward - less for reward, less in zip(whole, without, strict=True)]
            stderr = stdev(gains) / math.sqrt(len(gains))
            values[sentence] = (round(fmean(gains), 3), round(stderr, 4))
    return {"solved": round(fmean(whole), 3), "values": values}


def kind_of(values: Sequence[tuple[float, float]]) -> str:
    """Return what became of a sentence, where more than two standard errors show it."""
    value, stderr = values[-1]
    if abs(value) > 2 * stderr:
        return "still needed" if value > 0 else "harmful now"
    return "no longer needed" if any(earlier > 2 * error for earlier, error in values) else ""


def draw(seeds: Sequence[Mapping[str, Any]]) -> str:
    """Return the picture as SVG; the same numbers give the same text."""
    with mpl.rc_context({"svg.hashsalt": "evoprompt", "font.size": 9}):
        heights = [len(next(iter(seed["policies"].values()))["values"]) + 1.6 for seed in seeds]
        figure = Figure(figsize=(9, 0.22 * sum(heights) + 0.3), layout="constrained")
        panels = figure.subplots(len(seeds), 1, height_ratios=heights, squeeze=False)[:, 0]
        for axes, seed in zip(panels, seeds, strict=True):
            policies = seed["policies"]
            sentences = list(next(iter(policies.values()))["values"])
            table = [[policy["values"][name] for policy in policies.values()] for name in sentences]
            values = [[value for value, _ in row] for row in table]
            axes.imshow(values, cmap="RdBu", vmin=-0.6, vmax=0.6, aspect="auto")
            for place, row in enumerate(table):
                for column, (value, stderr) in enumerate(row):
                    weight = "bold" if abs(value) > 2 * stderr else "normal"
                    colour = "white" if abs(value) > 0.4 else "black"
                    style = {"ha": "center", "va": "center", "color": colour, "weight": weight}
                    axes.text(column, place, f"{value:+.2f}", **style)
                kind = kind_of(row)
                axes.text(len(policies) - 0.4, place, kind, va="center", color=COLOURS[kind])
            axes.set_yticks(range(len(sentences)), sentences)
            labels = [f"{int(name):,}\n{policies[name]['solved']:.0%}" for name in policies]
            axes.set_xticks(range(len(policies)), labels)
            axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
            axes.set_title(f"seed {seed['seed']}", loc="left", fontsize=9, weight="bold")
            axes.spines[:].set_visible(False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


def main() -> None:
    """Write the picture, and first its numbers where runs are given."""
    if runs := [RunDirectory.open(Path(run)) for run in sys.argv[1:]]:
        trials = [(run, TrialId("coevolve", seed)) for run in runs for seed in run.config.seeds]
        measured = [measure(run, trial) for run, trial in trials]
        NUMBERS.write_text(f"{json.dumps(measured, indent=1)}\n", encoding="utf-8")
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    NUMBERS.with_suffix(".svg").write_text(draw(numbers), encoding="utf-8")


if __name__ == "__main__":
    main()
