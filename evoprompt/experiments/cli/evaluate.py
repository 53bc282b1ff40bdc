"""``evoprompt eval``: what a policy reaches under an instruction, outside of any training."""

from __future__ import annotations

import sys
import traceback
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evoprompt.experiments.evaluate import Result


def evaluate(
    source: Annotated[
        Path,
        typer.Argument(help="Output of a run, one of its trials, or a YAML file.", metavar="RUN"),
    ],
    split: Annotated[str, typer.Option(help="Whose questions to ask.")] = "test",
    arm: Annotated[str | None, typer.Option(help="Of the run; else the best trial.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the run; else the best trial.")] = None,
    instruction: Annotated[
        Path | None, typer.Option(help="File with another instruction.", show_default="the best")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Folder of another policy, as a run saves it.", show_default="the run's"),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
) -> None:
    """Evaluate a trained policy under its best instruction, greedily.

    Of a YAML file it is the task's own policy under the first seed instruction:
    what a training with these settings starts from.
    """
    from evoprompt.errors import EvopromptError, InputError
    from evoprompt.experiments.evaluate import evaluate as evaluate_subject
    from evoprompt.experiments.evaluate import subject_of
    from evoprompt.experiments.instruction import read_instruction
    from evoprompt.processes import is_follower
    from evoprompt.text import masked, told

    subject = subject_of(source, set_ or (), arm, seed)
    if instruction is not None:
        subject = replace(subject, written=read_instruction(instruction))
    if policy is not None:
        if not (policy.is_dir() and any(policy.iterdir())):
            raise InputError(f"--policy is {policy}; required: a folder that a run has saved")
        subject = replace(subject, policy=policy)
    try:
        with redirect_stdout(sys.stderr):  # trainers talk; standard output is for the result
            found = evaluate_subject(subject, split)
    except EvopromptError:
        raise
    except OSError as error:  # a model that cannot be read, a server that is not there
        raise InputError(
            f"nothing was evaluated ({told(error)}); required: the files and services that task "
            "and policy need; check the paths"
        ) from error
    except Exception as error:  # in the task, the trainer or the model
        typer.echo(masked(traceback.format_exc()), err=True)
        typer.secho(f"error: the evaluation failed: {told(error)}", fg="red", err=True)
        raise typer.Exit(1) from error
    if is_follower():
        return
    if json:
        typer.echo(found.model_dump_json())
    else:
        _show(found)


def _show(found: Result) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from evoprompt.text import printable

    values = found.evaluation
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row(found.headline.label, f"{values.value:.3f}", style="bold")
    for name, value in values.by_stratum.items():
        table.add_row(f"  {name}", f"{value:.3f}")
    for name, value in values.metrics.items():
        table.add_row(name, f"{value:.3f}", style="dim")
    if values.failures.failed:
        table.add_row("", str(values.failures), style="bold red")
    console = Console(markup=False, highlight=False)
    policy = "the task's own policy" if found.policy is None else str(found.policy)
    told = f"{policy}, greedily, on {found.questions} questions of {found.split}"
    console.print(told, style="dim", soft_wrap=True)
    console.print(table)
    text = Text(printable(found.instruction))
    console.print(Panel(text, title="instruction", title_align="left"))
