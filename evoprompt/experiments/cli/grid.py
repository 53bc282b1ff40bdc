"""``evoprompt grid``: what weights and what the instruction have brought, two by two."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evoprompt.experiments.gridfile import Cell, Grid


def grid(
    runs: Annotated[list[Path], typer.Argument(help="Output directories of runs.", metavar="RUN")],
    split: Annotated[str, typer.Option(help="Whose questions to ask.")] = "test",
    arm: Annotated[str | None, typer.Option(help="Of each run; else its best one.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
) -> None:
    """Evaluate weights before and after training, each under the first and the best instruction.

    All finished seeds of an arm, greedily. What was measured is kept in RUN/grid.json,
    so that a grid that was stopped goes on where it was; the report shows it.
    """
    from evoprompt.experiments.grid import grid as measure

    def told(line: str) -> None:
        typer.echo(line, err=True)

    with redirect_stdout(sys.stderr):  # trainers talk; standard output is for the result
        found = measure(runs, split, arm, set_ or (), told)
    if json:
        typer.echo(found.model_dump_json())
    else:
        _show(found)


def _show(found: Grid) -> None:
    from rich.console import Console
    from rich.table import Table

    from evoprompt.experiments.gridfile import MOMENTS

    console = Console(markup=False, highlight=False)
    over = f"{found.trials} trials" if found.trials > 1 else "one trial, over its questions"
    console.print(
        f"{found.headline.label} on {found.questions} questions of {found.split}, greedily; "
        f"95 % intervals over {over}",
        style="dim",
        soft_wrap=True,
    )
    cells = {(cell.weights, cell.instruction): cell for cell in found.cells}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("", "first instruction", "best instruction"):
        table.add_column(name)
    names = {"before": "weights before training", "after": "weights after training"}
    for weights in MOMENTS:
        row = [cells[weights, one] for one in MOMENTS if (weights, one) in cells]
        if row:
            table.add_row(names[weights], *map(_cell, row))
    console.print(table)
    if len(cells) == len(MOMENTS):
        console.print("the policy was not trained", style="dim")
    for name, (mean, low, high) in found.gains.items():
        between = "" if low is None or high is None else f" ({low:+.3f} to {high:+.3f})"
        console.print(f"gain by {name}: {mean:+.3f}{between}", soft_wrap=True)


def _cell(cell: Cell) -> str:
    if cell.low is None or cell.high is None:
        return f"{cell.value:.3f}"
    return f"{cell.value:.3f} ({cell.low:.3f} to {cell.high:.3f})"
