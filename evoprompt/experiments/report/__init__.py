"""The page of a run, drawn from its events and its summary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evoprompt.experiments.report.source import Source


def write_report(root: Path, source: Source | None = None) -> Path:
    """Writes ``report.html`` into a folder and returns its path.

    What cannot be read is named in the page.

    Args:
        root: folder of a run, an optimization or an attached training.
        source: what it tells, where that is read already.

    Raises:
        InputError: ``root`` holds nothing of the kind.
        ModuleNotFoundError: the extra ``report``, which brings what draws, is missing.
    """
    # What draws is slow to import, and only needed here.
    from evoprompt.experiments.report.page import render_page
    from evoprompt.experiments.report.source import read_source
    from evoprompt.support.storage import write_whole

    page = root / "report.html"
    write_whole(page, render_page(source or read_source(root)))
    return page
