"""``evoprompt report``: the page of a run, rebuilt from its events."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from evoprompt.support.errors import InputError
from evoprompt.support.text import printable


def report(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run, an optimization, or the log_dir of an attached training.",
            metavar="RUN",
        ),
    ],
) -> None:
    """Rebuild report.html from a run's events.

    Works while the run is still going on, and with the intact part of a damaged one.
    """
    require_extra()
    from evoprompt.experiments.report import write_report
    from evoprompt.experiments.report.source import read_source

    source = read_source(run)
    typer.echo(str(write_report(run, source)))
    for problem in source.problems:
        typer.secho(f"warning: {printable(problem)}", fg="yellow", err=True)


def require_extra() -> None:
    """Refuse to render without the plotting libraries.

    Raises:
        InputError: a library is not installed.
    """
    for name in ("jinja2", "vl_convert"):
        if find_spec(name) is None:
            raise InputError(
                f'{name} is not installed; required: the extra report; pip install -e ".[report]"'
            )
