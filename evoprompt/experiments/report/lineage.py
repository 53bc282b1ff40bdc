"""The lineage of instructions: who descends from whom, how long each lived and how it did."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize

from evoprompt.experiments.report.history import TrialHistory
from evoprompt.experiments.report.lanes import lanes
from evoprompt.experiments.report.records import Life, Weight
from evoprompt.experiments.report.style import ACCENT, FAINT, INK
from evoprompt.experiments.report.wording import change
from evoprompt.text import sentences, stacked

_COLORS = colormaps["Greys"].resampled(256)
_SHADES = 2_000  # of a bar at most, however long the life
_LIGHTEST = 0.15  # of the colour map: weight 0 must still be seen on white


def draw_lineage(axes: Axes, history: TrialHistory) -> ScalarMappable:
    """Draws every life as a bar as dark as its weight; the winning descent is underlaid in colour.

    Returns:
        What a colour bar of the weights needs.
    """
    end = max(history.last_step, 1)
    winning = {life.candidate for life in history.path()}
    rows = lanes(history.lives.values(), end, winning)
    weights = [weight.value for life in history.lives.values() for weight in life.weights]
    scale = Normalize(min([0.0, *weights]), max([0.001, *weights]))
    for life in history.lives.values():
        row, until = rows[life.candidate], end if life.died is None else life.died
        wins = life.candidate in winning
        for parent in life.parents:
            if parent in rows:
                axes.plot(
                    [life.born] * 2,
                    [rows[parent], row],
                    color=ACCENT if wins and parent in winning else FAINT,
                    linewidth=2.5 if wins and parent in winning else 0.8,
                    solid_capstyle="round",
                    zorder=2 if wins else 1,
                )
        if wins:
            axes.plot(
                [life.born, until],
                [row] * 2,
                color=ACCENT,
                linewidth=13,
                zorder=2,
                solid_capstyle="butt",
            )
        _draw_bar(axes, life, row, until, scale)
        if life.died is not None:
            axes.plot(until, row, marker="x", color=INK, markersize=5, zorder=4)
        axes.annotate(
            life.candidate,
            (life.born, row),
            xytext=(3, 7),
            textcoords="offset points",
            color=ACCENT if wins else INK,
            fontweight="bold" if wins else "normal",
            fontsize=8,
            zorder=5,
        )
    axes.set_xlabel(
        "training step (a bar is a life, as dark as its importance weight; x: pruned; "
        "in colour: the winning descent)"
    )
    axes.set_xlim(-0.5, end + 0.5)
    axes.set_ylim(max(rows.values(), default=0) + 0.6, -0.9)
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    return ScalarMappable(scale, _COLORS)


def _draw_bar(axes: Axes, life: Life, row: int, until: int, scale: Normalize) -> None:
    last = max(until, life.born + 1)
    steps = np.linspace(life.born, last, min(last - life.born, _SHADES) + 1)
    known = life.weights or [Weight(life.born, life.verified or 0.0, None)]
    heights = np.interp(
        (steps[:-1] + steps[1:]) / 2, [one.step for one in known], [one.value for one in known]
    )
    points = np.column_stack([steps, np.full(len(steps), row)])
    segments = np.stack([points[:-1], points[1:]], axis=1)
    shades = _LIGHTEST + (1 - _LIGHTEST) * np.asarray(scale(heights))
    axes.add_collection(
        LineCollection(
            list(segments), colors=_COLORS(shades), linewidths=7, zorder=3, antialiaseds=False
        )
    )


def _drawable(text: str) -> str:
    """``text`` as a font can draw it: without controls, lone surrogates and stacks of marks."""
    if stacked(text):
        text = "".join(char for char in text if not unicodedata.combining(char))
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text under the lineage: ``label`` only where a candidate begins."""

    label: str
    text: str
    kept: bool = True


def story(history: TrialHistory, width: int = 120, most: int = 24) -> list[Line]:
    """The winning descent in words: the first instruction, then what each child changed.

    Args:
        history: of the trial.
        width: characters a line.
        most: lines at most; the last descendants are the ones to keep.
    """
    path = history.path()
    told = [list(_chapter(parent, child, width)) for parent, child in _pairs(path)]
    while len(told) > 2 and sum(map(len, told)) > most:
        del told[1]
    return [line for chapter in told for line in chapter][-most:]


def _pairs(path: Sequence[Life]) -> Iterator[tuple[Life | None, Life]]:
    yield from zip([None, *path], path, strict=False)


def _chapter(parent: Life | None, child: Life, width: int) -> Iterator[Line]:
    weight = "" if child.weight is None else f", weight {child.weight:.2f}"
    label = f"{child.candidate}  step {child.born}{weight}"
    if parent is None:
        marked = [("", " ".join(sentences(child.text)), True)]
        if child.rationale:
            marked.append(("", f"from {child.rationale}", False))
    else:
        changed = change(parent.text, child.text)
        marked = [("+ ", sentence, True) for sentence in changed.added]
        marked += [("- ", sentence, False) for sentence in changed.dropped]
    for mark, sentence, kept in marked or [("", "the same sentences in another order", True)]:
        for text in textwrap.wrap(mark + sentence, width, subsequent_indent="  " if mark else ""):
            yield Line(label, text, kept)
            label = ""


def write_story(axes: Axes, lines: Sequence[Line]) -> None:
    """Writes the lines of :func:`story` into ``axes``, which then show nothing else."""
    axes.set_axis_off()
    axes.set_title("The winning descent", color=ACCENT)
    axes.set_xlim(0, 1)
    axes.set_ylim(len(lines) + 0.5, -0.5)
    for row, line in enumerate(lines):
        axes.text(0.0, row, line.label, color=ACCENT, fontsize=9, fontweight="bold", va="center")
        axes.text(
            0.2,
            row,
            _drawable(line.text),
            color=INK if line.kept else "#6f6f6f",
            fontsize=9,
            va="center",
        )
