"""``evoprompt distill``: trains a policy to do without its instruction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evoprompt.experiments.cli.options import Jobs
from evoprompt.support.errors import InputError

if TYPE_CHECKING:
    from evoprompt.hosting.section import Settings

BUDGET = 2000  # rollouts


def distill(
    source: Annotated[
        Path, typer.Argument(help="Output of a run that is finished.", metavar="RUN")
    ],
    arm: Annotated[
        str | None, typer.Option(help="Trained arm.", show_default="the best trial's")
    ] = None,
    budget: Annotated[
        int, typer.Option(min=1, help="Rollouts under the instruction, of each seed.")
    ] = BUDGET,
    instruction: Annotated[
        Path | None,
        typer.Option(
            help="File with the remaining instruction.", show_default="the task's first instruction"
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Of the new arm.", show_default="ARM-distilled")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change its host; repeatable."),
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Train a policy to answer without its instruction as it answers with it.

    Adds an arm to the run: supervised steps on the policy's own good rollouts, shown under the
        first instruction. best, eval, export and report take the arm as any other. Prints the test
        with
    the instruction, without it and distilled, and the distance of each from the base model.
    """
    from rich.console import Console
    from rich.table import Table

    from evoprompt.experiments.best import best_trial
    from evoprompt.experiments.cli.run import launch
    from evoprompt.experiments.config import config_of
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.experiments.distill import table_of
    from evoprompt.experiments.instruction import read_instruction
    from evoprompt.experiments.settings import merge
    from evoprompt.support import yamlfile

    text = None if instruction is None else read_instruction(instruction)
    run = RunDirectory.open(source)
    if arm is None:
        distilled_arms = {
            arm_name for arm_name, arm_settings in run.config.arms.items() if arm_settings.distill
        }
        arm = best_trial(run).trial.arm
        if arm in distilled_arms:
            raise InputError(f"the best trial is of {arm!r}; required: --arm NAME, to choose one")
    else:
        best_trial(run, arm)
    name = name or f"{arm}-distilled"
    open_ = [trial for trial in run.trials() if trial.arm != name and not run.trial(trial).finished]
    if open_:
        raise InputError(
            f"{open_[0]} of {source} is not finished; required: a finished run; "
            f"continue it with evoprompt run {source} --resume, or take the arm out of its "
            "config.yaml"
        )
    file = source / "config.yaml"
    settings = yamlfile.read(file)
    new: Settings = {"after": arm, "distill": True, "budget": budget}
    new |= {"host": run.config.host_of(arm), "instructions": None if text is None else [text]}
    config = config_of(
        merge(settings, {"arms": {name: new}}),
        file,
        [f"arms.{name}.{change}" for change in changes or ()],
    )
    launch(config, file, source, jobs, resume=True, dry_run=False)
    run = RunDirectory.open(source)
    summary = run.collect()
    label = summary.main_metric.label if summary.main_metric else "test"
    seeds = len(run.config.seeds)
    basis = {1: "95 % over questions", 2: "each of 2 seeds"}.get(seeds, f"95 % over {seeds} seeds")
    table = Table("instruction", label, f"against with, {basis}", "KL to base, nats")
    for row in table_of(run, name):
        table.add_row(*row)
    Console().print(table)
