"""The pictures of a run, each a matplotlib figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure, SubFigure

from evoprompt.report.curves import PANELS, draw_headline, draw_panel
from evoprompt.report.history import TrialHistory
from evoprompt.report.lanes import lanes
from evoprompt.report.lineage import draw_lineage, story, write_story
from evoprompt.report.style import ArmStyle

WIDTH = 12.0
"""Width of a picture, in inches."""

Styles = Mapping[str, ArmStyle]


def overview(
    histories: Sequence[TrialHistory], styles: Styles, title: str, target: float | None = None
) -> Figure:
    """Everything in one picture: curves, and the lineage of the best trial that evolved.

    Args:
        histories: of all trials.
        styles: how each arm looks.
        title: of the whole.
        target: the headline to reach, if any.
    """
    shown = best_evolved(histories)
    heights = [4.0, 5.6]
    if shown is not None:
        heights += [_lineage_height(shown), _story_height(shown)]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    parts = [figure.add_subfigure(grid[row, 0]) for row in range(len(heights))]
    _headline(parts[0], histories, styles, target)
    _panels(parts[1], histories, styles)
    if shown is not None:
        _lineage(parts[2], shown)
        write_story(parts[3].subplots(), story(shown))
    return figure


def best_evolved(histories: Sequence[TrialHistory]) -> TrialHistory | None:
    """The trial with the best last evaluation among those that evolved."""
    return max(
        (history for history in histories if history.evolved),
        key=lambda history: -math.inf if history.merit is None else history.merit,
        default=None,
    )


def _headline(
    figure: Figure | SubFigure,
    histories: Sequence[TrialHistory],
    styles: Styles,
    target: float | None,
) -> None:
    axes = figure.subplots()
    draw_headline(axes, histories, styles, target)
    if any(history.evaluations for history in histories):
        figure.legend(loc="outside right upper")
    else:
        axes.text(0.5, 0.5, "not evaluated", ha="center", va="center", transform=axes.transAxes)


def _panels(figure: Figure | SubFigure, histories: Sequence[TrialHistory], styles: Styles) -> None:
    for axes, panel in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        draw_panel(axes, panel, histories, styles)


def _lineage(figure: Figure | SubFigure, history: TrialHistory) -> None:
    axes = figure.subplots()
    colors = draw_lineage(axes, history)
    axes.set_title(f"Lineage of the instructions: {history.arm}, seed {history.seed}")
    figure.colorbar(colors, ax=axes, label="importance weight", fraction=0.03, pad=0.01)


def _lineage_height(history: TrialHistory) -> float:
    winning = {life.candidate for life in history.path()}
    rows = lanes(history.lives.values(), history.last_step, winning)
    return 1.3 + 0.36 * (1 + max(rows.values(), default=0))


def _story_height(history: TrialHistory) -> float:
    return 0.6 + 0.2 * len(story(history))
