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

    Sends no request to a model. Each answer is scored anew by its task; differences are paired by
    question. Intervals are Student's, 95 %: over seeds for three seeds or more, over questions for
    one seed; two seeds have both values and no interval. Ends with exit code 1 where the page shows
    another number.
    """
    from evoprompt.experiments.replayed import PageResults

    recorded = PageResults(results)
    has_difference = False
    for name in recorded.rows if row is None else [row]:
        number = recorded.row(name)
        difference = (
            "" if number.text == number.page_text else f"; the page says {number.page_text}"
        )
        has_difference = has_difference or bool(difference)
        typer.secho(f"{name}: {number.text}{difference}", fg="red" if difference else None)
    if has_difference:
        raise typer.Exit(1)
