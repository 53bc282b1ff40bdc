"""The pictures of a run, each a matplotlib figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.figure import Figure, SubFigure

from evoprompt.experiments.report.curves import PANELS, Panel, draw_headline, draw_panel
from evoprompt.experiments.report.history import TrialHistory
from evoprompt.experiments.report.lanes import lanes
from evoprompt.experiments.report.lineage import draw_lineage, story, write_story
from evoprompt.experiments.report.records import Step
from evoprompt.experiments.report.style import ArmStyle

WIDTH = 12.0
"""Width of a picture, in inches."""

_PANEL = 2.8  # inches of a row of panels

Styles = Mapping[str, ArmStyle]


def overview(
    histories: Sequence[TrialHistory], styles: Styles, title: str, target: float | None = None
) -> Figure:
    """Everything in one picture: curves, and the lineage of the best trial that evolved.

    What there is no data for is left out.

    Args:
        histories: of all trials.
        styles: how each arm looks.
        title: of the whole.
        target: the headline to reach, if any.
    """
    shown = best_evolved(histories)
    evaluated = any(history.evaluations for history in histories)
    panels = [panel for panel in PANELS if any(panel.value in s.values for s in _steps(histories))]
    heights = [4.0] if evaluated else []
    if panels:
        heights.append(_PANEL * math.ceil(len(panels) / 2))
    if shown is not None:
        heights += [_lineage_height(shown), _story_height(shown)]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    parts = iter([figure.add_subfigure(grid[row, 0]) for row in range(len(heights))])
    if evaluated:
        _headline(next(parts), histories, styles, target)
    if panels:
        _panels(next(parts), panels, histories, styles)
    if shown is not None:
        _lineage(next(parts), shown)
        write_story(next(parts).subplots(), story(shown))
    return figure


def _steps(histories: Sequence[TrialHistory]) -> Iterator[Step]:
    return (step for history in histories for step in history.steps)


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
    draw_headline(figure.subplots(), histories, styles, target)
    figure.legend(loc="outside right upper")


def _panels(
    figure: Figure | SubFigure,
    panels: Sequence[Panel],
    histories: Sequence[TrialHistory],
    styles: Styles,
) -> None:
    rows = math.ceil(len(panels) / 2)
    places = list(figure.subplots(rows, 2, squeeze=False).flat)
    for axes, panel in zip(places, panels, strict=False):
        draw_panel(axes, panel, histories, styles)
    for axes in places[len(panels) :]:
        axes.set_axis_off()


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
