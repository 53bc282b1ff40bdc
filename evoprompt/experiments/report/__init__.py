"""Page of a run, rendered from its events and its summary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evoprompt.experiments.report.source import Source


def write_report(root: Path, source: Source | None = None) -> Path:
    """Write ``report.html`` into a folder and return its path.

    Files that cannot be read are named in the page.

    Args:
        root: folder of a run, an optimization or an attached training.
        source: its contents, if they have been read already.

    Raises:
        InputError: ``root`` is no such folder.
        ModuleNotFoundError: the extra ``report``, with the plotting libraries, is missing.
    """
    # The plotting libraries are slow to import, and only needed here.
    from evoprompt.experiments.report.page import render_page
    from evoprompt.experiments.report.source import read_source
    from evoprompt.support.storage import write_whole

    page = root / "report.html"
    write_whole(page, render_page(source or read_source(root)))
    return page
