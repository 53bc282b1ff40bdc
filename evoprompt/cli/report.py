"""``evoprompt report``: the pictures of a run, rebuilt from its events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="Output directory of a run.", metavar="RUN")],
) -> None:
    """Rebuild report.html and report.png from a run's events.

    Works while the run is still going on.
    """
    from evoprompt.report import write_report
    from evoprompt.runs.directory import RunDirectory

    directory = RunDirectory.open(run)
    directory.collect()
    for path in write_report(directory):
        typer.echo(str(path))
