"""Data of the page as JSON: curves of the arms, and all records of each trial."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TypeVar

import numpy as np

from evoprompt.experiments.history import Entry, TrainingHistory
from evoprompt.experiments.report.source import ReportedTrial, Source
from evoprompt.rules import grading_words
from evoprompt.support.text import english

Json = dict[str, object]
Points = Sequence[tuple[float, float]]
T = TypeVar("T")

PANELS = {
    "reward": "Reward",
    "tool_calls": "Tool calls per rollout",
    "instruction_length": "Instruction length in words",
    "response_tokens": "Response length in tokens",
}
"""The curves of the paper's Figure 2, by the name of the step's value."""

_EVOLVING = ("#1f77b4", "#d1590c", "#12775a", "#a04a87", "#8a6d00", "#3f9bc4")
_STATIC_COLOR = "#777777"
_LINES = ("solid", "dotted")
_SMOOTH = 5  # steps; as many as the window of Eq. 6
_POINTS = 300  # of a curve
_WEIGHTS = 24  # of a candidate's weights
_SHOWN = 300  # characters of a question
_MAX_DISAGREEMENTS = 1_000  # last questions of a trial with different rewards of candidates
_READ = 150  # most candidates of a trial with rollouts on the page, without the best descent
_CHECK = ("step", "round", "mean", "stderr", "scored", "admitted", "reason")
_CYCLE = ("step", "rounds", "proposed", "refused", "rollouts", "failure")


def document(source: Source) -> Json:
    """Return all data of the page. Texts are as they are in the files."""
    histories = [trial.history for trial in source.trials]
    main_metric = next((h.main_metric for h in histories if h.main_metric is not None), None)
    names = sorted({name for h in histories for step in h.steps for name in step.values})
    titles = PANELS | {name: name.replace("_", " ") for name in names if name not in PANELS}
    measured = [(trial.arm, trial.history.evaluations) for trial in source.trials]
    panels: list[Json] = []
    for name, title in titles.items():
        rows = _bands(source.arms, _steps(source.trials, name))
        if rows and all(panel["rows"] != rows for panel in panels):  # a reward may be a metric, too
            panels.append({"name": name, "title": title, "rows": rows})
    return {
        "title": source.title,
        "label": "evaluation" if main_metric is None else main_metric.label,
        "target": source.summary.target,
        "finished": 0 < len(source.trials) == len(source.summary.seeds),
        "arms": _styles(source),
        "validation": _bands(source.arms, measured),
        "panels": panels,
        "trials": [_trial(trial) for trial in source.trials],
        "tests": _tests(source),
        "higher": main_metric is None or main_metric.higher_is_better,
    }


def _styles(source: Source) -> Json:
    """Return colour and line style of each arm: grey and dashed if no instruction evolves."""
    styles: Json = {}
    for arm in source.arms:
        at = sum(other not in source.static_arms for other in styles)
        styles[arm] = (
            {"color": _STATIC_COLOR, "line": "dashed"}
            if arm in source.static_arms
            else {"color": _EVOLVING[at % len(_EVOLVING)], "line": _LINES[at % len(_LINES)]}
        )
    return styles


def _tests(source: Source) -> Json:
    """Return the outcome of each test question in each finished trial, hard questions last."""
    tested = [trial for trial in source.trials if trial.outcomes]
    kinds = {outcome.question: outcome.kind for trial in tested for outcome in trial.outcomes}
    values = [{outcome.question: outcome.value for outcome in trial.outcomes} for trial in tested]
    rows = [
        {
            "text": text[:_SHOWN],
            "kind": kind,
            "values": [_short(value.get(text)) for value in values],
        }
        for text, kind in kinds.items()
    ]
    return {"trials": [{"arm": trial.arm, "seed": trial.seed} for trial in tested], "rows": rows}


def _steps(trials: Sequence[ReportedTrial], name: str) -> list[tuple[str, Points]]:
    """Return running means of a value over the steps of each trial, with its arm."""
    lines: list[tuple[str, Points]] = []
    for trial in trials:
        line = [
            (step.step, step.values[name]) for step in trial.history.steps if name in step.values
        ]
        last = [[y for _, y in line[max(0, at - _SMOOTH) : at]] for at in range(1, len(line) + 1)]
        means = [(x, fmean(values)) for (x, _), values in zip(line, last, strict=True)]
        lines.append((trial.arm, means))
    return lines


def _bands(arms: Sequence[str], lines: Sequence[tuple[str, Points]]) -> list[Json]:
    """Return mean and range over the seeds of each arm, where all of them have values.

    Curves that are not half as long as the longest have only begun and would cut it short.
    """
    rows: list[Json] = []
    for arm in arms:
        mine = [line for name, line in lines if name == arm and line]
        farthest = max((line[-1][0] for line in mine), default=0)
        whole = [line for line in mine if line[-1][0] >= farthest / 2]
        start = max((line[0][0] for line in whole), default=0)
        end = min((line[-1][0] for line in whole), default=0)
        xs = _thinned([x for x, _ in whole[0] if start <= x <= end] if whole else [], _POINTS)
        heights = [np.interp(xs, [x for x, _ in line], [y for _, y in line]) for line in whole]
        for x, *ys in zip(xs, *heights, strict=True):
            row = {"arm": arm, "x": x, "seeds": len(mine)}
            heights_at_x = {"y": fmean(ys), "low": min(ys), "high": max(ys)}
            rows.append(row | {name: _short(height) for name, height in heights_at_x.items()})
    return rows


def _trial(trial: ReportedTrial) -> Json:
    history = trial.history
    waiting = {result.candidate.id for result in trial.waiting}
    winning = {entry.id for entry in history.path()}
    read = winning | set(list(history.candidates)[-_READ:])
    admitted = sorted(
        history.admitted_candidates.values(), key=lambda entry: entry.id not in winning
    )
    seeds = "\n".join(entry.text for entry in history.texts if entry.proposer == "seed")
    lanes = {entry.id: lane for lane, entry in enumerate(admitted)}
    return {
        "arm": trial.arm,
        "seed": trial.seed,
        "trained": bool(history.steps),
        "end": max(1, history.step),
        "texts": [
            _text(entry, read)
            | {"outcome": outcome(entry, entry.id in waiting), "reason": remark(entry, seeds)}
            | ({"lane": lanes[entry.id], "wins": entry.id in winning} if entry.admitted else {})
            | (_membership(entry, history) if entry.admitted else {})
            for entry in history.texts
        ],
        "cycles": [
            {name: generation[name] for name in _CYCLE}
            | {"admitted": len(generation["admitted"]), "population": len(generation["population"])}
            for generation in history.generations
        ],
        "disagreements": [
            [step, question, {name: _short(mean) for name, mean in means.items()}]
            for step, question, means in history.disagreements[-_MAX_DISAGREEMENTS:]
        ],
        "notices": [{"step": step, "message": message} for step, message in history.notices],
        "waiting": [
            {
                "id": result.candidate.id,
                "texts": dict(result.candidate.components),
                "mean": _short(result.mean),
            }
            for result in trial.waiting
        ],
        "requests": [
            {"action": request.action, "id": request.candidate, "by": request.by}
            for request in trial.pending_requests
        ],
    }


def _membership(entry: Entry, history: TrainingHistory) -> Json:
    return {
        "died": entry.died,
        "weight": _short(history.value_of(entry)),
        "weights": [
            [weight.step, _short(weight.value), _short(weight.stderr)]
            for weight in _thinned(entry.weights, _WEIGHTS)
        ],
        "pinned": entry.pinned,
    }


def _text(entry: Entry, read: set[str]) -> Json:
    """Return the data of a text; rollouts are None if there are some and they are left out."""
    rollouts = {"answers": list(entry.answers), "episodes": list(entry.episodes)}
    return {
        "id": entry.id,
        "born": entry.born,
        "text": english(entry.text),
        "texts": dict(entry.components),
        "parents": list(entry.parents),
        "by": entry.proposer,
        "why": entry.rationale,
        "verified": _short(entry.mean),
        "rollouts": entry.rollouts if entry.id else None,
        "checks": [{name: check[name] for name in _CHECK} for check in entry.checks],
        **{name: mine if entry.id in read or not mine else None for name, mine in rollouts.items()},
    }


def outcome(entry: Entry, waits: bool = False) -> str:
    """Return the outcome of a text, in a word or two."""
    if entry.admitted:
        return "active" if entry.is_member else "removed"
    if entry.rule:
        return "refused"
    if waits:
        return "waits for approval"
    if entry.checks:
        return "dropped"
    return "undecided" if entry.rollouts else "not tried"


def remark(entry: Entry, seeds: str) -> str:
    """Return why a text did not enter the population, or what a person should look at if it did.

    Args:
        entry: the text.
        seeds: the first instructions, whose words about grading are expected.
    """
    if entry.rule:
        return f"{entry.rule}: {entry.reason}" if entry.reason else entry.rule
    if entry.admitted:
        words = grading_words(entry.text, seeds)
        return f"read it: it speaks of grading ({', '.join(words)})" if words else ""
    return entry.answer or (entry.checks[-1]["reason"] if entry.checks else "")


def _thinned(items: Sequence[T], max_items: int) -> Sequence[T]:
    if len(items) <= max_items:
        return items
    return [items[at] for at in np.linspace(0, len(items) - 1, max_items).round().astype(int)]


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")
