"""``evoprompt export``: writes a trained policy as a folder to deploy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evoprompt.experiments.cli.options import OfArm, OfSeed


def export(
    source: Annotated[
        Path,
        typer.Argument(help="A run, a checkpoint, a trainer's output, an export.", metavar="RUN"),
    ],
    folder: Annotated[Path, typer.Argument(help="New folder to write.", metavar="FOLDER")],
    arm: OfArm = None,
    seed: OfSeed = None,
) -> None:
    """Write weights, tokenizer and best instruction as one folder to deploy.

    Its chat template places the instruction: a request needs only the user's question. Prints the
    command that serves it with vLLM.
    """
    from evoprompt.experiments.export import export as write

    for line in write(source, folder, arm, seed):
        typer.echo(line)
