"""``evoprompt best``: the evolved instruction alone, so that it pipes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from evoprompt.errors import InputError


def best(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run, a checkpoint, a trainer's output, a log_dir, an export.", metavar="RUN"
        ),
    ],
    arm: Annotated[str | None, typer.Option(help="Only of this arm.")] = None,
    seed: Annotated[int | None, typer.Option(help="Only of this seed.")] = None,
) -> None:
    """Print a run's best instruction.

    Chosen by validation questions, never by test questions.

    A trial that is not finished counts with its last evaluation. Of a checkpoint, a trainer's
    output folder or an export it is the engine's best at that step: whoever is shown to be better
    than the first instruction, and else that one, as the error output says; of the log_dir of a
    training without checkpoints, the same after the last step in its events. Of the directory of
    evoprompt.optimize, it is what that returned.
    """
    from evoprompt.agents.recipe import Recipe
    from evoprompt.experiments.best import best_trial
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.experiments.export.source import checkpoint_of
    from evoprompt.experiments.history import History, log_in
    from evoprompt.optimizer.folder import is_begun
    from evoprompt.optimizer.result import read_result
    from evoprompt.text import printable
    from evoprompt.types import legible

    statement = ""
    if is_begun(run):
        found = legible(read_result(run).best.components)
    elif (run / "config.yaml").is_file() or not run.is_dir():
        directory = RunDirectory.open(run)
        best_one = best_trial(directory, arm, seed)
        found, statement = best_one.instruction, best_one.statement
    else:
        log = log_in(run)
        try:
            recipe = Recipe.read(checkpoint_of(run))
            found, statement = recipe.best.instruction, recipe.statement
        except InputError:
            if log is None:
                raise
            history = History.read(log)
            if not history.best:
                raise InputError(
                    f"{log} holds no instruction; required: a training that has begun; wait"
                ) from None
            chosen_one = history.candidates[history.best]
            found, weight = chosen_one.text, chosen_one.weight
            worth = "" if weight is None else f", weight {weight:.3f}"
            typer.echo(f"candidate {chosen_one.id} after step {history.step}{worth}", err=True)
            statement = history.statement
    if statement:
        typer.echo(statement, err=True)
    instruction = found.encode("utf-8", "backslashreplace").decode("utf-8")
    typer.echo(printable(instruction) if sys.stdout.isatty() else instruction)
