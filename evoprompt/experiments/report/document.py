"""What the page shows, as JSON: curves of the arms, and everything that is known of each trial."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from pydantic import JsonValue

from evoprompt.experiments.report.bands import Band, Points, band, smoothed
from evoprompt.experiments.report.history import TrialHistory
from evoprompt.experiments.report.lanes import lanes
from evoprompt.experiments.report.records import Check, Episode, Life
from evoprompt.experiments.report.source import Source
from evoprompt.types import legible

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
_LEFT_OUT: Json = {"answers": None, "episodes": None}
_STEPS, _NAMED = 120, 12  # of the selection probabilities: steps, candidates with a colour each


def document(source: Source) -> Json:
    """Everything the page draws and lists. Texts are as they are in the files."""
    histories = source.histories
    headline = next((h.headline for h in histories if h.headline is not None), None)
    others = sorted({name for h in histories for step in h.steps for name in step.values})
    titles = PANELS | {name: name.replace("_", " ") for name in others if name not in PANELS}
    colors = iter(_COLORS * (1 + len(source.arms) // len(_COLORS)))
    return {
        "title": source.title,
        "label": "evaluation" if headline is None else headline.label,
        "target": source.target,
        "finished": 0 < len(histories) == len(source.summary.seeds),
        "arms": {arm: _STATIC if arm == "static" else next(colors) for arm in source.arms},
        "validation": _bands(source.arms, {(h.arm, h.seed): h.evaluations for h in histories}),
        "panels": [
            {"name": name, "title": title, "rows": rows}
            for name, title in titles.items()
            if (rows := _bands(source.arms, _values(histories, name)))
        ],
        "trials": [_trial(history, _ROLLOUTS // len(histories)) for history in histories],
        "spending": [
            {
                "model": model,
                "calls": charge.calls,
                "input": charge.input_tokens,
                "output": charge.output_tokens,
                "usd": charge.usd,
            }
            for model, charge in source.spending.items()
        ],
    }


def _values(histories: Sequence[TrialHistory], name: str) -> Mapping[tuple[str, int], Points]:
    return {
        (h.arm, h.seed): smoothed([(s.step, s.values[name]) for s in h.steps if name in s.values])
        for h in histories
    }


def _bands(arms: Iterable[str], lines: Mapping[tuple[str, int], Points]) -> list[JsonValue]:
    rows: list[JsonValue] = []
    for arm in arms:
        mine = [line for (name, _), line in lines.items() if name == arm and line]
        rows += [_point(arm, len(mine), one) for one in band(mine, _POINTS)]
    return rows


def _point(arm: str, seeds: int, one: Band) -> Json:
    found: Json = {"arm": arm, "x": one.x, "y": _short(one.mean), "seeds": seeds}
    if one.low < one.high:
        found |= {"low": _short(one.low), "high": _short(one.high)}
    return found


def _trial(history: TrialHistory, room: int) -> Json:
    winning = {life.candidate for life in history.path()}
    end = max([1, history.last_step, *(cycle.step for cycle in history.cycles)])
    rows = lanes(history.lives.values(), end, winning)
    kept = _rollouts(history, winning, room)
    return {
        "arm": history.arm,
        "seed": history.seed,
        "best": history.best,
        "end": end,
        "lives": [
            _life(life, rows[life.candidate], life.candidate in winning)
            | kept.get(life.candidate, _LEFT_OUT)
            for life in history.lives.values()
        ],
        "proposals": [
            {
                "step": one.step,
                "id": one.candidate,
                "parents": list(one.parents),
                "by": one.proposer,
                "outcome": one.outcome,
                "reason": one.why_not,
                **(
                    {}
                    if one.admitted  # it is among the lives
                    else {
                        "texts": dict(one.components),
                        "text": legible(one.components),
                        "why": one.rationale,
                        "checks": _checks(one.checks),
                        "answers": kept.get(one.candidate, _LEFT_OUT)["answers"],
                    }
                ),
            }
            for one in history.proposals
        ],
        "cycles": [dict(cycle._asdict()) for cycle in history.cycles],
        "notices": [{"step": step, "message": said} for step, said in history.notices],
        "chances": _chances(history, [life.candidate for life in history.path()]),
        "waiting": [
            {"id": one.id, "texts": dict(one.components), "mean": _short(one.mean)}
            for one in history.waiting
        ],
        "asked": [
            {"action": one.action, "id": one.candidate, "by": one.by} for one in history.asked
        ],
    }


def _life(life: Life, lane: int, wins: bool) -> Json:
    remark = life.remark
    return {
        "id": life.candidate,
        "text": life.text,
        "texts": dict(life.components),
        "parents": list(life.parents),
        "born": life.born,
        "died": life.died,
        "by": life.proposer,
        "why": life.rationale,
        "verified": _short(life.verified),
        "weight": _short(life.weight),
        "weights": [
            [one.step, _short(one.value), _short(one.stderr)]
            for one in _thinned(life.weights, _WEIGHTS)
        ],
        "draws": life.draws,
        "checks": _checks(life.checks),
        "remark": None
        if remark is None
        else {"step": remark.step, "reward": remark.reward, "text": remark.text},
        "lane": lane,
        "wins": wins,
        "pinned": life.pinned,
    }


def _rollouts(history: TrialHistory, winning: Collection[str], room: int) -> Mapping[str, Json]:
    """By candidate; where not all find room, those of the best descent and of the latest do."""
    answers = {one.candidate: one.answers for one in history.proposals}
    episodes = {life.candidate: life.episodes for life in history.lives.values()}
    latest = reversed(list(dict.fromkeys([*answers, *episodes])))
    found: dict[str, Json] = {}
    for name in sorted(latest, key=lambda name: name not in winning):
        mine: Json = {
            "answers": _excerpts(answers.get(name, ())),
            "episodes": _excerpts(episodes.get(name, ())),
        }
        room -= len(str(mine))
        if room < 0:
            break
        found[name] = mine
    return found


def _excerpts(episodes: Iterable[Episode]) -> list[JsonValue]:
    return [{"step": one.step, **one.excerpt} for one in episodes]


def _checks(checks: Iterable[Check]) -> list[JsonValue]:
    return [
        {
            "step": one.step,
            "round": one.round,
            "mean": _short(one.mean),
            "stderr": _short(one.stderr),
            "scored": one.scored,
            "admitted": one.admitted,
            "reason": one.reason,
        }
        for one in checks
    ]


def _chances(history: TrialHistory, path: Sequence[str]) -> Json:
    """Selection probabilities over time: some candidates each by itself, all others together.

    By themselves are the best descent, evenly thinned, and as many of the likeliest as find room.
    """
    known = [one for one in history.drawn if one.chances]
    total: dict[str, float] = {}
    for one in known:
        for name, chance in one.chances.items():
            total[name] = total.get(name, 0.0) + chance
    winning = _thinned([name for name in path if name in total], _NAMED)
    likely = sorted(total, key=lambda name: -total[name])
    born = {name: at for at, name in enumerate(total)}
    named = sorted(list(dict.fromkeys([*winning, *likely]))[:_NAMED], key=born.__getitem__)
    steps = _thinned(known, _STEPS)
    return {
        "ids": [*named, *(["others"] if len(total) > len(named) else [])],
        "steps": [one.step for one in steps],
        "shares": [
            [
                *(_short(one.chances.get(name, 0.0)) for name in named),
                *(
                    [_short(sum(one.chances[name] for name in one.chances.keys() - set(named)))]
                    if len(total) > len(named)
                    else []
                ),
            ]
            for one in steps
        ],
    }


def _thinned(items: Sequence[T], most: int) -> Sequence[T]:
    if len(items) <= most:
        return items
    return [items[at] for at in np.linspace(0, len(items) - 1, most).round().astype(int)]


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")
