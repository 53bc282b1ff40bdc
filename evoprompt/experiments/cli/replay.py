"""``evoprompt replay``: the numbers of a page of results, computed again without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def replay(
    results: Annotated[Path, typer.Argument(help="Folder with results.yaml.", metavar="RESULTS")],
    row: Annotated[
        str | None, typer.Argument(help="As the page has it; else all.", metavar="ROW")
    ] = None,
) -> None:
    """Compute the numbers of a page of results again, from every recorded answer.

    Asks no model. Each answer is scored anew by its task; intervals are 95 %, over questions, and
    differences are paired by question. Ends with exit code 1 where the page shows another number.
    """
    from evoprompt.experiments.replayed import Results

    found = Results(results)
    other = False
    for name in found.rows if row is None else [row]:
        one = found.row(name)
        told = "" if one.found == one.shown else f"; the page says {one.shown}"
        other = other or bool(told)
        typer.secho(
            f"{name}: {one.found} ({one.questions} questions){told}", fg="red" if told else None
        )
    if other:
        raise typer.Exit(1)
