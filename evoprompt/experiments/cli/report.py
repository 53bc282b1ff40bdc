"""``evoprompt report``: the page of a run, rebuilt from its events."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from evoprompt.errors import InputError
from evoprompt.text import printable


def report(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run, an optimization, a trainer's output, a checkpoint, an export.",
            metavar="RUN",
        ),
    ],
) -> None:
    """Rebuild report.html and report.png from a run's events.

    Works while the run is still going on, and with what is left of a damaged one.
    """
    require_extra()
    from evoprompt.experiments.report import draw
    from evoprompt.experiments.report.source import read_source

    source = read_source(run)
    for path in draw(source, run):
        typer.echo(str(path))
    for problem in source.problems:
        typer.secho(f"warning: {printable(problem)}", fg="yellow", err=True)


def require_extra() -> None:
    """Refuses to draw without what draws.

    Raises:
        InputError: it is not.
    """
    for name in ("jinja2", "matplotlib", "vl_convert"):
        if find_spec(name) is None:
            raise InputError(
                f"{name} is not installed; required: the extra report; "
                'pip install "evoprompt[report]"'
            )
