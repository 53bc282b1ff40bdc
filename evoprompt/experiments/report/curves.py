"""Curves of a run: its headline over rollouts, and the paper's Figure 2 over training steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from evoprompt.evaluation import Headline
from evoprompt.experiments.report.bands import Points, band, smoothed
from evoprompt.experiments.report.history import TrialHistory
from evoprompt.experiments.report.style import FAINT, ArmStyle, label_axes
from evoprompt.experiments.summary import rollouts_to


@dataclass(frozen=True, slots=True)
class Panel:
    """One curve of Figure 2.

    Attributes:
        value: name of the step's value.
        title: what it is.
        unit: label of its axis.
    """

    value: str
    title: str
    unit: str


PANELS = (
    Panel("reward", "Reward", "mean reward"),
    Panel("tool_calls", "Tool calls", "calls per rollout"),
    Panel("instruction_length", "Instruction length", "words"),
    Panel("response_tokens", "Response length", "tokens per rollout"),
)


def draw_panel(
    axes: Axes, panel: Panel, histories: Sequence[TrialHistory], styles: Mapping[str, ArmStyle]
) -> None:
    """Draws one value over training steps: faint lines for seeds, a bold one for their mean."""
    for arm, style in styles.items():
        lines = [
            [
                (step.step, step.values[panel.value])
                for step in history.steps
                if panel.value in step.values
            ]
            for history in histories
            if history.arm == arm
        ]
        _draw_arm(axes, [smoothed(line) for line in lines if line], arm, style, marked=False)
    label_axes(axes, panel.title, "training step", panel.unit)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]) if panel.value == "reward" else 0)


def draw_headline(
    axes: Axes,
    histories: Sequence[TrialHistory],
    styles: Mapping[str, ArmStyle],
    target: float | None = None,
) -> None:
    """Draws the headline on validation over rollouts, and where it reaches ``target``."""
    headline = headline_of(histories)
    if target is not None:
        axes.axhline(target, color=FAINT, linewidth=1, linestyle=":")
    prices = 0
    for arm, style in styles.items():
        curves = [history.evaluations for history in histories if history.arm == arm]
        mean = _draw_arm(axes, [c for c in curves if c], arm, style, marked=True)
        reached = rollouts_to(target, [(round(x), y) for x, y in mean], headline)
        if reached is None:
            continue
        axes.axvline(reached, color=style.color, linewidth=1, linestyle=":")
        axes.annotate(
            f"{target:g} after {reached:,}",
            (reached, 0.03 + 0.07 * prices),  # one above the other, where they may be close
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            color=style.color,
            fontsize=9,
        )
        prices += 1
    label_axes(
        axes,
        f"{headline.label[:1].upper()}{headline.label[1:]} on validation questions",
        "rollouts, verification included",
        headline.label,
    )
    if all(0 <= value <= 1 for history in histories for _, value in history.evaluations):
        axes.set_ylim(0, 1)
    axes.xaxis.set_major_formatter("{x:,.0f}")


def headline_of(histories: Sequence[TrialHistory]) -> Headline:
    """The headline of a run, all of whose trials have the same; a stand-in before it is known."""
    found = (history.headline for history in histories if history.headline is not None)
    return next(found, Headline("evaluation", "evaluation"))


def _draw_arm(
    axes: Axes, lines: Sequence[Points], arm: str, style: ArmStyle, marked: bool
) -> Points:
    """Draws the seeds of one arm and their mean, and returns the mean."""
    if not lines:
        return []
    if len(lines) > 1:
        for line in lines:
            axes.plot(*zip(*line, strict=True), color=style.color, alpha=0.35, linewidth=0.8)
    mean = [(x, y) for x, y, _, _ in band(lines)]
    axes.plot(
        *zip(*mean, strict=True),
        color=style.color,
        linestyle=style.line,
        linewidth=2,
        marker=style.marker if marked else None,
        markersize=4,
        markevery=max(1, len(mean) // 12),
        label=arm,
    )
    return mean
