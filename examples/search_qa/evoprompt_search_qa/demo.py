"""``evoprompt demo``: the tiny example without a clone."""

from __future__ import annotations

from pathlib import Path

import typer

from evoprompt.experiments.cli import main

_HERE = Path(__file__).parent
RECIPE = next(path for path in (_HERE / "tiny.yaml", _HERE.parent / "tiny.yaml") if path.is_file())
"""``tiny.yaml``: in the package where it was installed from a wheel, beside it in a clone."""

app = typer.Typer(name="demo")


@app.command(
    "demo",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    options_metavar="[OPTIONS OF evoprompt run]",
)
def demo(context: typer.Context) -> None:
    """Train a tiny search agent twice: with a fixed instruction, and with one that evolves.

    Takes ten minutes or so on two CPU cores, needs no download, and ends with report.html in
    runs/tiny. With --smoke it only shows that it works, in under a minute. All options of
    evoprompt run are taken: --dry-run, --output DIR, --set KEY=VALUE and so on.
    """
    main(["run", str(RECIPE), *context.args])
