"""The page and the picture of a run, drawn from its events and its summary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evoprompt.experiments.report.source import Source


def write_report(root: Path) -> list[Path]:
    """Writes ``report.html`` and, where something has happened, ``report.png`` into a folder.

    What cannot be read is named in the page.

    Args:
        root: folder of a run, an optimization or an attached training.

    Returns:
        The paths of what was written.

    Raises:
        InputError: ``root`` holds nothing of the kind.
        ModuleNotFoundError: the extra ``report``, which brings what draws, is missing.
    """
    from evoprompt.experiments.report.source import read_source

    return draw(read_source(root), root)


def draw(source: Source, root: Path) -> list[Path]:
    """Writes page and picture of ``source`` into ``root`` as :func:`write_report` does.

    Raises:
        ModuleNotFoundError: the extra ``report``, which brings what draws, is missing.
    """
    # matplotlib is slow to import, and only needed here.
    from evoprompt.experiments.report.page import render_page
    from evoprompt.experiments.report.pictures import overview
    from evoprompt.experiments.report.style import arm_styles, style
    from evoprompt.storage import write_whole

    picture, page = root / "report.png", root / "report.html"
    write_whole(page, render_page(source))
    if not any(history.steps or history.evaluations for history in source.histories):
        return [page]  # no curve to draw
    with style():
        drawn = overview(source.histories, arm_styles(source.arms), source.title, source.target)
        drawn.savefig(picture, dpi=130)
    return [page, picture]
