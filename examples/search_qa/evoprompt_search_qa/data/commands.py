"""``evoprompt search-qa data ...``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evoprompt.support.errors import InputError
from evoprompt.support.storage import require_folder
from evoprompt_search_qa.data.sets import HUB_REPOSITORY, SETS, TRAIN_MIX

app = typer.Typer(
    name="data", help="Prepare the questions of the real experiment.", no_args_is_help=True
)


@app.callback()
def group() -> None:
    """Prepare the questions of the real experiment."""


@app.command()
def prepare(
    output: Annotated[Path, typer.Option(help="Folder to write.")],
    source: Annotated[
        str,
        typer.Option(help="A data set on the hub, a clone of it, or a folder of .jsonl files."),
    ] = HUB_REPOSITORY,
    train: Annotated[
        list[str] | None,
        typer.Option(
            help="Set to train on, of any name if it is a file of --source; may be repeated.",
            show_default=", ".join(TRAIN_MIX),
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(help="Set to test on, likewise; may be repeated.", show_default="all seven"),
    ] = None,
    validation: Annotated[
        int,
        typer.Option(
            min=0,
            help="Training questions to hold out for validation.",
            show_default="0; of --questions a fifth",
        ),
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of training questions.")] = 0,
    passages: Annotated[
        Path | None,
        typer.Option(help='Own documents: JSON lines of "text" and perhaps "title" and "id".'),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(help='Own questions: JSON lines of "question" and "answer".'),
    ] = None,
) -> None:
    """Write the training mix and the test sets as parquet files, with a report.

    With --passages and --questions, write own documents and questions in three splits, and a run
    file for them.
    """
    require_folder(output, "--output")
    if (passages is None) != (questions is None):
        raise InputError(
            "only one of --passages and --questions is given; required: both, or neither for the "
            "sets of --source"
        )
    try:
        if passages is None:
            import datasets  # noqa: F401
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError(
            f"the library {error.name!r} is not installed; data preparation needs it; "
            "pip install -e 'examples/search_qa[data]'"
        ) from error
    if passages is not None and questions is not None:
        if train or test or source != HUB_REPOSITORY:
            raise InputError(
                "--source, --train or --test is given beside --passages; required: either own "
                "documents or sets of questions; drop one of them"
            )
        _prepare_own(passages, questions, output, validation, seed)
        return
    from evoprompt_search_qa.data.prepare import Preparation
    from evoprompt_search_qa.data.prepare import prepare as run

    preparation = Preparation(source, train or TRAIN_MIX, test or tuple(SETS), validation, seed)
    report = run(preparation, output)
    for key, count in report.counts.items():
        name, split = key.split("/")
        read_as = "test" if split == "test" else "train"
        typer.echo(f"{name} {split}: {count:,} from {report.files[f'{name}/{read_as}']}")
    for finding, count in (
        ("bad rows, left out", len(report.skipped)),
        ("questions repeated within the test sets, kept", len(report.test_repeats)),
        ("questions repeated within the training mix, left out", len(report.train_repeats)),
        ("training questions that a test set asks, left out", len(report.overlap)),
    ):
        typer.echo(f"{count:,} {finding}")
    typer.echo(f"wrote {output}; details in {output / 'report.json'}")


def _prepare_own(passages: Path, questions: Path, output: Path, validation: int, seed: int) -> None:
    from evoprompt_search_qa.data.own import next_commands, prepare_own

    report = prepare_own(passages, questions, output, validation, seed)
    for finding in report.skipped:
        typer.echo(f"left out: {finding}", err=True)
    for finding in report.joined:
        typer.echo(f"both answers count: {finding}", err=True)
    splits = ", ".join(f"{count:,} for {split}" for split, count in report.counts.items())
    typer.echo(f"wrote {output}: {report.passages:,} passages, and questions: {splits}")
    typer.echo("go on with:")
    for command in next_commands(output):
        typer.echo(command)
