"""``evoprompt run``: trains every arm with every seed, tests, and writes the report."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evoprompt.experiments.cli.options import (
    Changes,
    DryRun,
    FirstSeed,
    Jobs,
    Output,
    Resume,
    Seeds,
    SeedsFrom,
    with_seeds_from,
)
from evoprompt.support.errors import InputError
from evoprompt.support.storage import is_follower
from evoprompt.support.text import many

if TYPE_CHECKING:
    from rich.console import Console

    from evoprompt.experiments.config import RunConfig
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.lm.budget import SpendTracker


def run(
    config: Annotated[
        Path,
        typer.Argument(help="YAML file of the run, or with --resume its output.", metavar="CONFIG"),
    ],
    output: Output = None,
    arm: Annotated[list[str] | None, typer.Option(help="Only this arm; repeatable.")] = None,
    seed: FirstSeed = None,
    seeds: Seeds = None,
    changes: Changes = None,
    jobs: Jobs = None,
    launcher: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where trials run: local, ray, slurm."),
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Only check that it works.")] = False,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,VALUE",
            help="An arm for each value of a setting of host or engine; repeatable.",
        ),
    ] = None,
    seeds_from: SeedsFrom = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    gpu_price: Annotated[
        float | None,
        typer.Option(min=0, metavar="USD", help="Of a GPU hour, for the cost in --dry-run."),
    ] = None,
) -> None:
    """Train all arms and seeds of a configuration, and compare them.

    Ctrl-C saves after the current step and prints the command to resume. A dry run checks
    everything, loads no model, writes and sends nothing, and ends with exit code 3 if this machine
    lacks something.
    """
    from evoprompt.experiments.config import load
    from evoprompt.experiments.sweep import swept

    if resume and config.is_dir():
        output, config = output or config, config / "config.yaml"
    overrides = with_seeds_from(changes, seeds_from)
    if launcher is not None:
        overrides.append(f"launcher.name={json.dumps(launcher)}")
    run_config = load(config, overrides, smoke).narrowed(arm or (), seed, seeds)
    run_config = swept(run_config, sweep or ())
    if gpu_price is not None and not dry_run:
        raise InputError(
            "--gpu-price is given without --dry-run; required: both; drop it, or add --dry-run"
        )
    launch(run_config, config, output, jobs, resume=resume, dry_run=dry_run, gpu_price=gpu_price)


def launch(
    run_config: RunConfig,
    config: Path,
    output: Path | None,
    jobs: int | None,
    *,
    resume: bool,
    dry_run: bool,
    gpu_price: float | None = None,
    tracker: SpendTracker | None = None,
) -> None:
    """Run, resume or forecast ``run_config``, and end with the exit code of the outcome.

    Args:
        run_config: the run.
        config: its file; the stem names the folder if there is no ``output``.
        output: the folder.
        jobs: trials at a time; by default as many as the launcher has room for.
        resume: whether to continue the run in the folder.
        dry_run: whether only to print the forecast.
        gpu_price: USD of a GPU hour, for the cost in the forecast.
        tracker: earlier costs of the writer.
    """
    from evoprompt.experiments.directory import RunDirectory

    root = output or _default_output(config, resume)
    if not dry_run and not is_follower():
        # Either may refuse the folder.
        RunDirectory.open(root) if resume else RunDirectory.new(root, run_config)
        typer.secho(_first_line(run_config, config, root), dim=True)
    # From here on everything is slow to import.
    from functools import partial

    from rich.console import Console

    from evoprompt.experiments.check import check, forecast_run
    from evoprompt.experiments.cli.display import Display
    from evoprompt.experiments.cli.forecast import MISSING, show_forecast
    from evoprompt.experiments.cli.results import show_costs, show_results
    from evoprompt.experiments.config import with_host_defaults
    from evoprompt.experiments.distributed import follow, require_one_at_a_time
    from evoprompt.experiments.runner import run as run_trials
    from evoprompt.lm.budget import SpendTracker
    from evoprompt.plugins import build

    starter = build("launcher", run_config.launcher)
    if dry_run:
        run_config = with_host_defaults(run_config)
        forecast = forecast_run(run_config, root=root, here=not starter.elsewhere)
        if starter.elsewhere:
            forecast = replace(forecast, needs=(*forecast.needs, starter.reach()))
        show_forecast(run_config, forecast, Console(markup=False, highlight=False), gpu_price)
        raise typer.Exit(MISSING if forecast.missing else 0)
    require_one_at_a_time(jobs, output)
    if output is not None and is_follower():
        following = (
            RunDirectory.resumed(output, run_config) if resume else RunDirectory(output, run_config)
        )
        follow(following)
        return
    directory = RunDirectory.resumed(root, run_config) if resume else RunDirectory(root, run_config)
    has_journal = directory.spending.exists()
    spending = tracker or SpendTracker(directory.spending if has_journal else None)
    _ = spending.spent  # raises now if the journal cannot be read
    console = Console(markup=False, highlight=False)
    print_line = partial(console.print, soft_wrap=True)
    notices = list(starter.open())
    forecast = check(directory.config, spending, root, here=not starter.elsewhere)
    plan_notices = [notice for arm in forecast.arms for notice in arm.plan.notices]
    for notice in dict.fromkeys([*notices, *plan_notices]):
        print_line(notice, style="yellow")
    if forecast.language.calls:
        print_line(f"language model: {forecast.language}", style="dim")
    if not has_journal:
        SpendTracker(directory.spending).join(spending.settled)
    display = Display(directory, console)
    with closing(starter):
        outcome = run_trials(directory, display, jobs, forecast.isolated, starter)
    if outcome.summary.arms:
        show_results(directory, outcome.summary, console)
        show_costs(directory, console)
        _write_report(directory, console)
    for trial, reason in outcome.nothing_evolved.items():
        policy_note = f"its policy is saved in {directory.trial(trial).policy}"
        print_line(f"{trial} evolved nothing: {reason}; {policy_note}", style="bold red")
    again = f"evoprompt run {root} --resume" + (f" --jobs {jobs}" if jobs else "")
    if outcome.interrupted:
        print_line(f"stopped; continue with: {again}", style="yellow")
        raise typer.Exit(130)
    if outcome.failed:
        for trial in outcome.failed:
            print_line(f"{trial} failed: see {directory.trial(trial).error}", style="red")
        print_line(f"fix the cause and continue with: {again}", style="red")
        raise typer.Exit(2 if outcome.bad_input else 1)
    if outcome.nothing_evolved:
        raise typer.Exit(1)


def _first_line(run_config: RunConfig, config: Path, root: Path) -> str:

    arms = list(run_config.arms)
    compared = ", ".join(arms) if len(arms) < 4 else f"{len(arms)} arms"
    budgets = sorted({run_config.budget_of(arm) for arm in arms})
    prefix = f"{budgets[0]:,} to " if len(budgets) > 1 else ""
    size = f"{many(len(run_config.seeds), 'seed')}, {prefix}{many(budgets[-1], 'rollout')} each"
    return f"run of {config} -> {root}: {compared}; {size}"


def _default_output(config: Path, resume: bool) -> Path:
    """Return ``runs/NAME``, then ``runs/NAME-2`` and so on; the newest of them to resume."""
    number, path = 1, Path("runs") / config.stem
    newest = path
    while path.exists():
        newest = path
        number += 1
        path = path.with_name(f"{config.stem}-{number}")
    return newest if resume else path


def _write_report(directory: RunDirectory, console: Console) -> None:
    from evoprompt.experiments.report import write_report

    try:
        line, style = str(write_report(directory.root)), "dim"
    except ModuleNotFoundError as error:
        again = f'pip install -e ".[report]", then evoprompt report {directory.root}'
        line, style = f"no report without {error.name}: {again}", "yellow"
    console.print(line, style=style, soft_wrap=True)
