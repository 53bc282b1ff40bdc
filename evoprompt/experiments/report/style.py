"""How the pictures look: colours that differ in hue and in grey, one style for each arm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle

import matplotlib as mpl
from matplotlib.axes import Axes

INK = "#222222"
FAINT = "#9a9a9a"
ACCENT = "#b3400e"
"""The winning line of descent."""


Dashes = str | tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ArmStyle:
    """How an arm is drawn in every picture of a report."""

    color: str
    line: Dashes
    marker: str


_STATIC = ArmStyle("#1f5f99", (0, (5, 2)), "s")
_COLORS = ("#d1590c", "#12775a", "#a04a87", "#8a6d00", "#4a4a4a", "#3f9bc4")
_LINES: tuple[Dashes, ...] = ("-", (0, (1, 1)), "-.", (0, (8, 2, 1, 2, 1, 2)), (0, (3, 1)))
_MARKERS = ("o", "^", "D", "v", "P", "X", "*")


def arm_styles(arms: Sequence[str]) -> Mapping[str, ArmStyle]:
    """A style for each arm; ``static`` always has its own, the others differ in all three ways.

    Colours, lines and markers repeat after different numbers of arms, so that no two of the first
    two hundred look the same.
    """
    others = zip(cycle(_COLORS), cycle(_LINES), cycle(_MARKERS), strict=False)
    return {arm: _STATIC if arm == "static" else ArmStyle(*next(others)) for arm in arms}


@contextmanager
def style() -> Iterator[None]:
    """The look of everything drawn inside."""
    with mpl.rc_context(
        {
            "axes.edgecolor": FAINT,
            "axes.grid": True,
            "axes.labelcolor": INK,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlelocation": "left",
            "axes.titlesize": 11,
            "axes.titleweight": "bold",
            "figure.facecolor": "white",
            "font.size": 10,
            "grid.color": "#e6e6e6",
            "legend.frameon": False,
            "svg.hashsalt": "evoprompt",
            "text.color": INK,
            "text.parse_math": False,  # an instruction may hold $\\boxed{}$
            "xtick.color": INK,
            "ytick.color": INK,
        }
    ):
        yield


def label_axes(axes: Axes, title: str, x: str, y: str) -> None:
    """Names the picture and its axes."""
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.margins(x=0.01)
