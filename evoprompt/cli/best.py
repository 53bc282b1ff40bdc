"""``evoprompt best``: the evolved instruction alone, so that it pipes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def best(
    run: Annotated[Path, typer.Argument(help="Output directory of a run.", metavar="RUN")],
    arm: Annotated[str | None, typer.Option(help="Only of this arm.")] = None,
    seed: Annotated[int | None, typer.Option(help="Only of this seed.")] = None,
) -> None:
    """Print a run's best instruction.

    Chosen by validation questions, never by test questions.

    A trial that is not finished counts with its last evaluation.
    """
    from evoprompt.runs.best import best_instruction
    from evoprompt.runs.directory import RunDirectory
    from evoprompt.text import printable

    found = best_instruction(RunDirectory.open(run), arm, seed)
    instruction = found.encode("utf-8", "backslashreplace").decode("utf-8")
    typer.echo(printable(instruction) if sys.stdout.isatty() else instruction)
