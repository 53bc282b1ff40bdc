"""What the page shows, as JSON: curves of the arms, and everything that is known of each trial."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from pydantic import JsonValue

from evoprompt.experiments.history import Entry, History
from evoprompt.experiments.report.bands import Band, Points, band, smoothed
from evoprompt.experiments.report.source import Source, Trial

Json = dict[str, JsonValue]
T = TypeVar("T")

PANELS = {
    "reward": "Reward",
    "tool_calls": "Tool calls per rollout",
    "instruction_length": "Instruction length in words",
    "response_tokens": "Response length in tokens",
}
"""The curves of the paper's Figure 2, by the name of the step's value."""

_COLORS = ("#d1590c", "#12775a", "#a04a87", "#8a6d00", "#6b6b6b", "#3f9bc4")
_STATIC = "#2f74b5"
_POINTS = 300  # of a curve
_WEIGHTS = 24  # of a candidate's weights
_ROLLOUTS = 2_000_000  # characters of rollouts in a page
_CHECK = ("step", "round", "mean", "stderr", "scored", "admitted", "reason")


def document(source: Source) -> Json:
    """Everything the page draws and lists. Texts are as they are in the files."""
    trials = source.trials
    histories = [trial.history for trial in trials]
    headline = next((h.headline for h in histories if h.headline is not None), None)
    others = sorted({name for h in histories for step in h.steps for name in step.values})
    titles = PANELS | {name: name.replace("_", " ") for name in others if name not in PANELS}
    colors = iter(_COLORS * (1 + len(source.arms) // len(_COLORS)))
    measured = [(trial.arm, trial.history.evaluations) for trial in trials]
    return {
        "title": source.title,
        "label": "evaluation" if headline is None else headline.label,
        "target": source.summary.target,
        "finished": 0 < len(trials) == len(source.summary.seeds),
        "arms": {arm: _STATIC if arm == "static" else next(colors) for arm in source.arms},
        "validation": _bands(source.arms, measured),
        "panels": [
            {"name": name, "title": title, "rows": rows}
            for name, title in titles.items()
            if (rows := _bands(source.arms, _values(trials, name)))
        ],
        "trials": [_trial(trial, _ROLLOUTS // len(trials)) for trial in trials],
    }


def _values(trials: Sequence[Trial], name: str) -> list[tuple[str, Points]]:
    return [
        (trial.arm, smoothed([(s.step, s.values[name]) for s in steps if name in s.values]))
        for trial in trials
        for steps in [trial.history.steps]
    ]


def _bands(arms: Iterable[str], lines: Sequence[tuple[str, Points]]) -> list[JsonValue]:
    rows: list[JsonValue] = []
    for arm in arms:
        mine = [line for name, line in lines if name == arm and line]
        rows += [_point(arm, len(mine), one) for one in band(mine, _POINTS)]
    return rows


def _point(arm: str, seeds: int, one: Band) -> Json:
    found: Json = {"arm": arm, "x": one.x, "y": _short(one.mean), "seeds": seeds}
    if one.low < one.high:
        found |= {"low": _short(one.low), "high": _short(one.high)}
    return found


def _trial(trial: Trial, room: int) -> Json:
    history = trial.history
    waiting = {one.id for one in trial.waiting}
    winning = {entry.id for entry in history.path()}
    rows = _assign_rows(history, winning)
    kept = _rollouts(history, winning, room)
    return {
        "arm": trial.arm,
        "seed": trial.seed,
        "trained": bool(history.steps),
        "end": max(1, history.step),
        "lives": [
            _text(entry, kept)
            | {
                "born": entry.born,
                "died": entry.died,
                "weight": _short(entry.mean if entry.weight is None else entry.weight),
                "weights": [
                    [one.step, _short(one.value), _short(one.stderr)]
                    for one in _thinned(entry.weights, _WEIGHTS)
                ],
                "draws": entry.draws,
                "remark": None if entry.remark is None else dict(entry.remark),
                "lane": rows[entry.id],
                "wins": entry.id in winning,
                "pinned": entry.pinned,
            }
            for entry in history.lives.values()
        ],
        "proposals": [
            {
                "step": entry.born,
                "outcome": outcome(entry, entry.id in waiting),
                "reason": why_not(entry),
                # the others are among the lives
                **(
                    {"id": entry.id, "parents": list(entry.parents), "by": entry.proposer}
                    if entry.admitted
                    else _text(entry, kept)
                ),
            }
            for entry in history.proposals
        ],
        "cycles": [
            {name: one[name] for name in ("step", "rounds", "proposed", "refused", "rollouts")}
            | {"admitted": len(one["admitted"]), "population": len(one["population"])}
            | {"failure": one["failure"]}
            for one in history.generations
        ],
        "notices": [{"step": step, "message": said} for step, said in history.notices],
        "waiting": [
            {"id": one.id, "texts": dict(one.components), "mean": _short(one.mean)}
            for one in trial.waiting
        ],
        "asked": [{"action": one.action, "id": one.candidate, "by": one.by} for one in trial.asked],
    }


def outcome(entry: Entry, waits: bool = False) -> str:
    """What became of a text, in a word or two."""
    if entry.admitted:
        return "admitted"
    if entry.rule:
        return "refused"
    if waits:
        return "waits for approval"
    return "turned away" if entry.checks else "not tried"


def why_not(entry: Entry) -> str:
    """Why a text did not enter the population, if it did not."""
    if entry.rule:
        return f"{entry.rule}: {entry.reason}" if entry.reason else entry.rule
    if entry.admitted:
        return ""
    return entry.answer or (entry.checks[-1]["reason"] if entry.checks else "")


def _text(entry: Entry, kept: Mapping[str, Json]) -> Json:
    return {
        "id": entry.id,
        "text": entry.text,
        "texts": dict(entry.components),
        "parents": list(entry.parents),
        "by": entry.proposer,
        "why": entry.rationale,
        "verified": _short(entry.mean),
        "checks": [{name: one[name] for name in _CHECK} for one in entry.checks],
        **kept.get(entry.id, {}),
    }


def _assign_rows(history: History, winning: Collection[str]) -> Mapping[str, int]:
    """A row for each life, the lowest in which it overlaps no other; the winning ones first."""
    rows: list[list[tuple[int, int]]] = []
    placed: dict[str, int] = {}
    for entry in sorted(history.lives.values(), key=lambda entry: entry.id not in winning):
        span = (entry.born, history.step if entry.died is None else entry.died)
        row = next((row for row, taken in enumerate(rows) if _fits(span, taken)), len(rows))
        if row == len(rows):
            rows.append([])
        insort(rows[row], span)
        placed[entry.id] = row
    return placed


def _fits(span: tuple[int, int], taken: Sequence[tuple[int, int]]) -> bool:
    """Whether a gap of at least a step parts the span from all that are there, oldest first."""
    after = bisect_left(taken, span)
    return (not after or taken[after - 1][1] < span[0]) and (
        after == len(taken) or span[1] < taken[after][0]
    )


def _rollouts(history: History, winning: Collection[str], room: int) -> Mapping[str, Json]:
    """By candidate; where not all find room, those of the best descent and of the latest do.

    Others have None.
    """
    latest = reversed(history.candidates.values())
    found: dict[str, Json] = {}
    for entry in sorted(latest, key=lambda entry: entry.id not in winning):
        kept = {"answers": list(entry.answers), "episodes": list(entry.episodes)}
        room -= len(str(kept))
        found[entry.id] = {
            name: [dict(one) for one in mine] if room >= 0 or not mine else None
            for name, mine in kept.items()
        }
    return found


def _thinned(items: Sequence[T], most: int) -> Sequence[T]:
    if len(items) <= most:
        return items
    return [items[at] for at in np.linspace(0, len(items) - 1, most).round().astype(int)]


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")
