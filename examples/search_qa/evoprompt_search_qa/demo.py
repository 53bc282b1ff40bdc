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
    add_help_option=False,  # that of `evoprompt run` has the options
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def demo(context: typer.Context) -> None:
    """Run the tiny search-QA example; takes the options of `evoprompt run`."""
    main(["run", str(RECIPE), *context.args])
