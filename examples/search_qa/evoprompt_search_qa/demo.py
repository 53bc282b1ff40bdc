"""``evoprompt demo``: the tiny example without a clone."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import typer

from evoprompt.experiments.cli import COMMANDS

_HERE = Path(__file__).parent
RECIPE = next(path for path in (_HERE / "tiny.yaml", _HERE.parent / "tiny.yaml") if path.is_file())
"""``tiny.yaml``: in the package where it was installed from a wheel, beside it in a clone."""

_run = partial(COMMANDS["run"], RECIPE)

app = typer.Typer(name="demo")


@app.command("demo")
def demo(**options: Any) -> None:
    """Train a tiny search agent twice: with a fixed instruction, and with one that evolves.

    Takes ten minutes or so on two CPU cores, needs no download, and ends with report.html in
    runs/tiny. With --smoke it only shows that it works, in under a minute.
    """
    _run(**options)


vars(demo)["__signature__"] = inspect.signature(_run, eval_str=True)  # the options of `run`
