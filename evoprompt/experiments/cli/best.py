"""``evoprompt best``: only the evolved instruction on standard output, for pipes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from evoprompt.experiments.cli.options import OfArm, OfSeed
from evoprompt.support.errors import InputError
from evoprompt.support.text import english, printable


def best(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run, a checkpoint, a trainer's output, a log_dir, an export.", metavar="RUN"
        ),
    ],
    arm: OfArm = None,
    seed: OfSeed = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print values of sentences on the error output.")
    ] = False,
) -> None:
    """Print a run's best instruction.

    Chosen by validation questions, never by test questions.

    A trial that is not finished counts with its last evaluation. Of a checkpoint, a trainer's
    output folder or an export it is the engine's best at that step, and the error output states
    whether it is shown to be better than the first instruction; of the log_dir of a training
    without checkpoints, the same after the last step in its events. Of the directory of
    evoprompt.optimize, it is the returned instruction.

    With --explain: the gain in mean reward by each sentence of a text, from all rollouts of the
    training, with its standard error. Two of these are the line between shown and not shown.
    """
    text, statement = _best_of(run, arm, seed)
    if statement:
        typer.echo(statement, err=True)
    if explain:
        _explain(run, arm, seed)
    instruction = text.encode("utf-8", "backslashreplace").decode("utf-8")
    typer.echo(printable(english(instruction)) if sys.stdout.isatty() else instruction)


def _best_of(run: Path, arm: str | None, seed: int | None) -> tuple[str, str]:
    """Return the instruction, and a sentence on its comparison; empty if nothing was compared."""
    from evoprompt.agents.recipe import Recipe
    from evoprompt.experiments.best import best_trial
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.experiments.export.source import checkpoint_of
    from evoprompt.experiments.history import TrainingHistory, log_in
    from evoprompt.optimizer.folder import is_begun
    from evoprompt.optimizer.result import read_result
    from evoprompt.types import legible

    if is_begun(run):
        return legible(read_result(run).best.components), ""
    if (run / "config.yaml").is_file() or not run.is_dir():
        trial = best_trial(RunDirectory.open(run), arm, seed)
        return trial.instruction, trial.statement
    log = log_in(run)
    try:
        recipe = Recipe.read(checkpoint_of(run))
        return recipe.best.instruction, recipe.statement
    except InputError:
        if log is None:
            raise
    history = TrainingHistory.read(log)
    if not history.best:
        raise InputError(f"{log} holds no instruction; required: a training that has begun; wait")
    entry = history.candidates[history.best]
    worth = "" if entry.weight is None else f", weight {entry.weight:.3f}"
    statements = [f"candidate {entry.id} after step {history.step}{worth}", history.statement]
    return entry.text, "\n".join(filter(None, statements))


def _explain(run: Path, arm: str | None, seed: int | None) -> None:
    """Print the values of sentences by the events of the trial with the best evaluation."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from evoprompt.experiments.best import best_trial
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.experiments.history import TrainingHistory, log_in

    log, description, remedy = log_in(run), str(run), "wait, or leave --explain out"
    if (run / "config.yaml").is_file():
        directory = RunDirectory.open(run)
        trial = best_trial(directory, arm, seed).trial
        files = directory.trial(trial)
        log, description = files.events, f"{trial} of {run}"
        if files.finished is not None:
            remedy = "it has ended: name another with --arm and --seed, or leave --explain out"
    sentences = [] if log is None else TrainingHistory.read(log).sentences
    if not sentences:
        raise InputError(
            f"{description} has no values of sentences; required: the events of a training with "
            "the attributor adjusted (the default) and texts that differ in their sentences, after "
            f"its first generation; {remedy}"
        )
    table = Table("adds", "", "texts", "sentence", box=None)
    for sentence in sentences:
        verdict = "" if sentence.verdict == "not shown" else sentence.verdict
        table.add_row(
            str(sentence), verdict, str(sentence.holders), Text(printable(english(sentence.text)))
        )
    Console(stderr=True, markup=False, highlight=False).print(table)
